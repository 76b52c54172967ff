"""Specification of multi-resolution attention in float64 numpy: slow, plain, and what every kernel is compared with.

out_i = sum_j exp(p_ij) v_j / sum_j exp(p_ij), p_ij = scale * q_i . k_j, is approximated by cells of h queries x g keys. A cell
that is not refined gives each of its rows g' * exp(scale * q~ . k~) * v~, where q~, k~, v~ are the means over its valid tokens
and g' the number of its valid keys. Padded tokens (mask 0) never count: the result on valid rows is that of the input cut to its valid
tokens, padded rows give 0.

    square(q, k, v, sizes, budgets)  cells s x s, s = sizes[0] > sizes[1] > ... (Zeng et al., ICML 2022, Alg. 1 and 2)
    columns(q, k, v, m1, m2)         cells h x G, h x 1, 1 x 1, chosen per row of cells
    sorted_rows(q, k, v, m1, m2)     the same with rows of cells that are alike (query_order), not neighbours in the text
    exact(q, k, v)                   softmax attention

All take one head: q [n, d], k [n, d], v [n, dv], mask [n] of 0/1 or None, and return [n, dv]. n may be any number.
"""
from __future__ import annotations

import numpy as np

PRIOR = 1e6  # lifts prior cells over all others


def exact(q, k, v, mask=None, scale=None):
    n = len(q)
    valid = np.ones(n, bool) if mask is None else np.asarray(mask) > 0
    out = np.zeros((n, v.shape[1]))
    if valid.any():
        scores = _scale(q, scale) * q[valid] @ k[valid].T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[valid] = weights @ v[valid] / weights.sum(1, keepdims=True)
    return out


def square(q, k, v, sizes, budgets, mask=None, scale=None, rule="rowmax", first_n=0, diag_n=0, sparse=False, gaps=None):
    """sizes: s0 > s1 > ... each dividing the one before. budgets[i]: cells of level i refined to level i + 1, per head.
    rule: what the best cells of a level have most of: "mu" (log mu), "rowmax" (log mu minus the maximum of its row of cells).
    first_n, diag_n: cells of level 0 refined before all others (inside the budget): those in the first first_n rows or columns, those at
    most diag_n // 2 off the diagonal; a cell that is both goes first. Ties: the lower row, then the lower column.
    sparse: only the finest level counts. gaps: a list that gets, per level, how much better the last cell refined is than the first one
    that is not (what rounding must not bridge)."""
    n = len(q)
    q, k, v, valid = _padded(q, k, v, mask, sizes[0])
    scale = _scale(q, scale)
    levels = [_Level(q, k, v, valid, s) for s in sizes]
    n_cells = len(valid) // sizes[0]
    x, y = (a.ravel() for a in np.indices((n_cells, n_cells)))
    state = _State(len(valid), v.shape[1])
    for i, level in enumerate(levels):
        log_mu = scale * np.einsum("cd,cd->c", level.q[x], level.k[y])
        alive = (level.count[x] > 0) & (level.count[y] > 0)
        x, y, log_mu = x[alive], y[alive], log_mu[alive]
        if i == len(levels) - 1:
            state.add(level, x, y, log_mu)
            break
        key = log_mu
        if rule == "rowmax":
            row_max = np.full(len(level.count), -np.inf)
            np.maximum.at(row_max, x, log_mu)
            key = log_mu - row_max[x]
        if i == 0:
            key = key + PRIOR * ((x < first_n).astype(float) + (y < first_n) + ((abs(x - y) <= diag_n // 2) if diag_n > 0 else 0))
        order = np.argsort(-key, kind="stable")
        best, rest = np.sort(order[:budgets[i]]), np.sort(order[budgets[i]:])
        if gaps is not None and len(best) and len(rest):
            gaps.append(key[order[len(best) - 1]] - key[order[len(best)]])
        if not sparse:
            state.add(level, x[rest], y[rest], log_mu[rest])
        ratio = sizes[i] // sizes[i + 1]
        dx, dy = (a.ravel() for a in np.indices((ratio, ratio)))
        x, y = (x[best][:, None] * ratio + dx).ravel(), (y[best][:, None] * ratio + dy).ravel()
        order = np.lexsort((y, x))  # cells of every level in the same order: by row, then column
        x, y = x[order], y[order]
    return (state.result() * valid[:, None])[:n]


def checkpoint_budget(max_pos, block_per_row):
    """Cells of 32 x 32 a trained MRA checkpoint refines per head, whatever the length of the text."""
    blocks = max_pos // 32
    return min(blocks * block_per_row, blocks * blocks)


def columns(q, k, v, m1, m2, mask=None, scale=None, h=16, g=16, bound=True, first_n=0, local=0, sparse=False):
    """Per row of cells (h queries), independent of all others, with q~ the mean of its valid queries:
    1. score every block of g keys by sum_c max(q~_c kmin_c, q~_c kmax_c) (bound) or q~ . k~; expand the m1 best
       (first_n first ones and those within local of the diagonal before all others);
    2. l_j = q~ . k_j for the expanded keys; the m2 best are kept;
    3. out_i = [sum_kept e^{q_i.k_j} v_j + sum_expanded e^{l_j} v_j + sum_blocks count e^{q~.k~} v~] / the same with v = 1."""
    n = len(q)
    q, k, v, valid = _padded(q, k, v, mask, int(np.lcm(h, g)))
    q = q * _scale(q, scale)
    keys = _Level(q, k, v, valid, g)
    in_block = valid.reshape(-1, g)[:, :, None]
    live = keys.count > 0
    k_max = np.where(live[:, None], np.where(in_block, k.reshape(-1, g, k.shape[1]), -np.inf).max(1), 0)
    k_min = np.where(live[:, None], np.where(in_block, k.reshape(-1, g, k.shape[1]), np.inf).min(1), 0)
    out = np.zeros((len(valid), v.shape[1]))
    for row in range(len(valid) // h):
        rows = np.arange(row * h, (row + 1) * h)
        rows = rows[valid[rows]]
        if len(rows) == 0:
            continue
        mean = q[rows].mean(0)
        log_mu = keys.k @ mean
        score = np.maximum(mean * k_max, mean * k_min).sum(1) if bound else log_mu.copy()
        score[:first_n] += PRIOR
        if local > 0:
            at = row * h // g
            score[max(0, at - local + 1):at + local] += PRIOR
        score[~live] = -np.inf
        expanded = np.argsort(-score, kind="stable")[:m1]
        expanded = np.sort(expanded[live[expanded]])
        column = (expanded[:, None] * g + np.arange(g)).ravel()
        column = column[valid[column]]
        log_col = k[column] @ mean
        order = np.argsort(-log_col, kind="stable")
        kept, pooled = column[order[:m2]], order[m2:]
        block = live.copy()
        block[expanded] = False

        scores, values, weights = [q[rows] @ k[kept].T], [v[kept]], [np.ones(len(kept))]
        if not sparse:
            scores += [np.broadcast_to(log_col[pooled], (len(rows), len(pooled))), np.broadcast_to(log_mu[block], (len(rows), block.sum()))]
            values += [v[column[pooled]], keys.v[block]]
            weights += [np.ones(len(pooled)), keys.count[block]]
        scores, values, weights = np.concatenate(scores, 1), np.concatenate(values), np.concatenate(weights)
        if len(weights):
            e = np.exp(scores - scores.max(1, keepdims=True)) * weights
            out[rows] = e @ values / e.sum(1, keepdims=True)
    return out[:n]


def _stride(n, wanted):
    return n // wanted | 1 if n // wanted > 1 else 1


def key_covariance(k, n_keys=128):
    """of every stride-th key, divided by its largest diagonal element"""
    keys = k[::_stride(len(k), n_keys)]
    keys = keys - keys.mean(0)
    cov = keys.T @ keys
    top = cov.diagonal().max()
    return cov / top if top > 0 else cov


def query_order(q, k, h=16, n_keys=128, n_rows=24):
    """Permutation of the rows of q: the leaves of a balanced tree, each h rows in ascending order (the last ones may be fewer).
    A node of m > h rows sends the h * ceil(m / 2h) with the smallest y . z to its left, ties to the lower row, where z = C Y'Y C_c,
    C = covariance of every stride-th key, Y = every stride-th row of the node minus their mean, c = argmax_c C_cc sum Y_c^2."""
    cov = key_covariance(k, n_keys)
    out, todo = np.empty(len(q), np.int64), [(0, np.arange(len(q)))]
    while todo:
        at, rows = todo.pop()
        m = len(rows)
        if m > h:
            step = _stride(m, n_rows)
            y = q[rows[step // 2::step]]
            y = y - y.mean(0)
            z = cov @ (y.T @ (y @ cov[np.argmax(cov.diagonal() * (y * y).sum(0))]))
            cut = -(-m // (2 * h)) * h
            order = np.argsort(q[rows] @ z, kind="stable")
            todo += [(at, np.sort(rows[order[:cut]])), (at + cut, np.sort(rows[order[cut:]]))]
        else:
            out[at:at + m] = rows
    return out


def key_bias(q, k, v, order, h=16):
    """b_j = 1/2 log sum_c D_c (k_j - k~)_c^2 + log |v_j - v~|, D = mean variance of q (scaled) within its blocks: e^{l_j + b_j} is about the
    error of leaving key j to the mean query."""
    blocks = [q[order[a:a + h]] for a in range(0, len(q), h)]
    var = sum(len(b) * b.var(0) for b in blocks) / len(q)
    return 0.5 * np.log((k - k.mean(0)) ** 2 @ var + 1e-9) + 0.5 * np.log(((v - v.mean(0)) ** 2).sum(1) + 1e-18)


def sorted_rows(q, k, v, m1, m2, n_exact=0, mask=None, scale=None, h=16, g=16, order=None):
    """columns over rows of cells that are alike:
    0. rows of cells: runs of h of query_order, or of the order given. The n_exact rows of cells whose scores spread most,
       sum_c Var(q_c) C_cc with C of query_order, use all keys: queries that are like no others end up together, and their mean means nothing;
    1. the mean key is subtracted from all keys: exact attention does not change, the mean query's scores do;
    2. expand the m1 blocks of g keys with the largest bound plus largest bias; keep the m2 keys with the largest l_j + b_j."""
    valid = np.ones(len(q), bool) if mask is None else np.asarray(mask) > 0
    out = np.zeros((len(q), v.shape[1]))
    if not valid.any():
        return out
    q, k, v = q[valid] * _scale(q, scale), k[valid], v[valid]
    order = query_order(q, k, h) if order is None else np.asarray(order)
    bias = key_bias(q, k, v, order, h)
    k_var = key_covariance(k).diagonal()
    k = k - k.mean(0)
    n = len(k)
    cells = [slice(a, min(a + g, n)) for a in range(0, n, g)]
    k_max, k_min, k_mean = (np.array([f(k[c], axis=0) for c in cells]) for f in (np.max, np.min, np.mean))
    bias_max = np.array([bias[c].max() for c in cells])
    blocks = [order[a:a + h] for a in range(0, n, h)]
    spread = np.array([q[rows].var(0) @ k_var for rows in blocks])
    worst = np.argsort(-spread, kind="stable")[:n_exact]
    result = np.empty((n, v.shape[1]))
    for x, rows in enumerate(blocks):
        mean = q[rows].mean(0)
        scores = np.tile(np.repeat(k_mean @ mean, g)[:n], (len(rows), 1))  # a block not expanded: all its keys weigh the same
        bound = np.maximum(mean * k_max, mean * k_min).sum(1) + bias_max
        expanded = np.sort(np.argsort(-bound, kind="stable")[:m1])
        column = np.concatenate([np.arange(n)[cells[y]] for y in expanded])
        scores[:, column] = k[column] @ mean
        kept = np.arange(n) if x in worst else column[np.argsort(-(k[column] @ mean + bias[column]), kind="stable")[:m2]]
        scores[:, kept] = q[rows] @ k[kept].T
        e = np.exp(scores - scores.max(1, keepdims=True))
        result[rows] = e @ v / e.sum(1, keepdims=True)
    out[valid] = result
    return out


class _Level:
    """Means of q, k, v over the valid tokens of each block of s, and how many there are."""

    def __init__(self, q, k, v, valid, s):
        self.s = s
        self.count = valid.reshape(-1, s).sum(1).astype(float)
        share = np.maximum(self.count, 1)[:, None]
        self.q, self.k, self.v = ((x * valid[:, None]).reshape(-1, s, x.shape[1]).sum(1) / share for x in (q, k, v))


class _State:
    """Running softmax per token: maximum, sum of weights, weighted sum of values."""

    def __init__(self, n, dv):
        self.max, self.sum, self.acc = np.full(n, -np.inf), np.zeros(n), np.zeros((n, dv))

    def add(self, level, x, y, log_mu):
        """Cells (x, y) of a level: every row of x gets count_y * exp(log_mu) * v~_y."""
        n_rows = len(level.count)
        top = np.full(n_rows, -np.inf)
        np.maximum.at(top, x, log_mu)
        weight = np.exp(log_mu - top[x]) * level.count[y]
        total, acc = np.zeros(n_rows), np.zeros((n_rows, self.acc.shape[1]))
        np.add.at(total, x, weight)
        np.add.at(acc, x, weight[:, None] * level.v[y])
        top, total, acc = (np.repeat(a, level.s, axis=0) for a in (top, total, acc))
        new = np.maximum(self.max, top)
        base = np.where(np.isfinite(new), new, 0)
        old, fresh = np.exp(self.max - base), np.exp(top - base)
        self.max = new
        self.sum = self.sum * old + total * fresh
        self.acc = self.acc * old[:, None] + acc * fresh[:, None]

    def result(self):
        return np.where(self.sum[:, None] > 0, self.acc / np.where(self.sum > 0, self.sum, 1)[:, None], 0)


def _scale(q, scale):
    return 1 / np.sqrt(q.shape[1]) if scale is None else scale


def _padded(q, k, v, mask, multiple):
    """float64 arrays filled up with masked zeros to a multiple of the block size."""
    n = len(q)
    valid = np.ones(n, bool) if mask is None else np.asarray(mask) > 0
    pad = -n % multiple
    q, k, v = (np.pad(np.asarray(x, np.float64), ((0, pad), (0, 0))) for x in (q, k, v))
    return q, k, v, np.pad(valid, (0, pad))
