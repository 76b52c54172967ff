"""Retrieval measures over unit vectors: queries [n][width], documents [m][width]; query i belongs to document i.

    rank_i     = 1 + number of other documents that are at least as close to query i as its own (ties count against us)
    accuracy@1 = mean of rank_i = 1             nDCG@10 = mean of 1 / log2(1 + rank_i) where rank_i <= 10, else 0
    same ten   = mean of |A_i and B_i| / 10, A_i and B_i the ten documents nearest to query i in two sets of vectors
"""
from __future__ import annotations

import numpy as np

SEED, RESAMPLES, LEVEL = 16, 2000, 0.95


def scores(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """cosines [n][m]"""
    for x in (queries, documents):
        if x.ndim != 2 or not np.isfinite(x).all() or not x.any(axis=1).all():
            raise ValueError("embeddings must be rows of finite numbers, not all of them zero")
    unit = [x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True) for x in (queries, documents)]
    return unit[0] @ unit[1].T


def ranks(s: np.ndarray) -> np.ndarray:
    """[n], from 1"""
    own = s[np.arange(len(s)), np.arange(len(s))]
    return (s >= own[:, None]).sum(axis=1)


def hits(rank: np.ndarray) -> np.ndarray:
    return (rank == 1).astype(float)


def gains(rank: np.ndarray, k: int = 10) -> np.ndarray:
    return np.where(rank <= k, 1 / np.log2(1 + rank), 0.0)


def nearest(s: np.ndarray, k: int = 10) -> np.ndarray:
    """[n][k] documents, nearest first; of equal ones the first"""
    return np.argsort(-s, axis=1, kind="stable")[:, :k]


def shared(a: np.ndarray, b: np.ndarray, k: int = 10) -> np.ndarray:
    """[n]: the part of the k nearest that both have"""
    return np.array([len(set(x) & set(y)) / len(x) for x, y in zip(nearest(a, k), nearest(b, k))])


def interval(values: np.ndarray) -> list:
    """[low, high]: percentile bootstrap of the mean, resampling queries"""
    rng = np.random.default_rng(SEED)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    return [float(x) for x in np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]


def measure(s: np.ndarray, reference: np.ndarray) -> dict:
    """of one setting, beside the reference's scores; each a mean with its interval, `change` paired by query"""
    gain = gains(ranks(s))
    out = {"accuracy": hits(ranks(s)), "ndcg": gain, "change": gain - gains(ranks(reference)), "same_ten": shared(s, reference)}
    return {name: [round(x, 5) for x in (float(v.mean()), *interval(v))] for name, v in out.items()}
