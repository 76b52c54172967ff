#!/bin/sh
# Seeded bugs: each line changes one place of a copy of the sources; a test that names it must then fail. A mutant that
# survives means a test that cannot fail. Opt-in (make mutants): it rebuilds the kernels for every line.
# usage: mutants.sh SOURCE BUILD [WORD]   BUILD: a configured build folder, only its ggml is reused; WORD: only lines that have it
set -u
src=$(cd "$1" && pwd); build=$(cd "$2" && pwd); work=$build/mutants
ggml=$(sed -n 's/^ggml_SOURCE_DIR:STATIC=//p' "$build/CMakeCache.txt")
rm -rf "$work"; mkdir -p "$work"
cp -r "$src/CMakeLists.txt" "$src/ggml-mra" "$src/tests" "$src/examples" "$work/"
cmake -S "$work" -B "$work/build" -DGGML_MRA_GGML_DIR="$ggml" -DCMAKE_BUILD_TYPE=Release -DGGML_MRA_KERNEL_OPT=-O1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" -j 2 --target test-ops test-attn test-golden test-sched test-errors test-linear test-int8 >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }

caught=0; survived=0
while IFS='|' read test file from to; do # \| is a bar of the source
    case "$test" in ''|'#'*) continue ;; esac
    case "$test $file" in *"${3:-}"*) ;; *) continue ;; esac
    test=$(echo $test); file=$(echo $file)
    case "$file" in encoder/*) file=ggml-mra/$file ;; *) file=ggml-mra/src/$file ;; esac
    cp "$work/$file" "$work/saved"
    FROM=$from TO=$to perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' "$work/$file"
    if cmp -s "$work/$file" "$work/saved"; then echo "NOT FOUND  $file: $from"; survived=$((survived + 1)); continue; fi
    if cmake --build "$work/build" -j 2 --target "$test" >"$work/log" 2>&1; then
        if timeout 300 ctest --test-dir "$work/build" -R "^$test\$" >"$work/log" 2>&1
        then echo "SURVIVED   $test: $file: $from -> $to"; survived=$((survived + 1))
        else echo "caught     $test: $file: $from -> $to"; caught=$((caught + 1)); fi
    else echo "NO BUILD   $file: $from -> $to"; survived=$((survived + 1)); fi
    cp "$work/saved" "$work/$file"
done <<'LIST'
test-ops    |cpu/pool.inc|const float inv = 1.0f/n;|const float inv = 1.0f/block;
test-ops    |cpu/pool.inc|kind == 1 ? v_min(r, acc)|kind == 1 ? v_max(r, acc)
test-ops    |cpu/block-score.inc|v_max(p, qv*v_load(k_max + j*ldk + c))|p
test-ops    |cpu/block-score.inc|for (int t = c; t < d; t++)|for (int t = c; t < d - 1; t++)
test-ops    |compute.c|fill_inf(out + n, c->n_bk - n);|(void) fill_inf;
test-ops    |cpu/topk-blocks.inc|x[i] == th.t && n_eq-- > 0|x[i] == th.t
test-ops    |cpu/topk-blocks.inc|if (th.n_ge == m)|if (th.n_ge >= m)
test-ops    |compute.c|mra_named_key(r.s[i] - max, named) : r.s[i] - max;|mra_named_key(r.s[i], named) : r.s[i];
test-encoder|compute.c|mra_named_key(r.s[i] - max, named) : r.s[i] - max;|r.s[i] - max + named*1e6f : r.s[i] - max;
test-ops    |plan.h|x - y : y - x) <= diag_n/2)|x - y : y - x) < diag_n/2)
test-ops    |compute.c|w[n] = (float) mra_min(c->g, n_k - col*c->g);|w[n] = (float) c->g;
test-ops    |cpu/coarse-state.inc|if (corr != 1) for|if (0) for
test-ops    |cpu/block-sparse-attn.inc|v_load(o + c)*v_set1(corr[r])|v_load(o + c)
test-ops    |cpu/block-sparse-attn.inc|(size_t) idx[j + m] : first + (j|(size_t) idx[j] : first + (j
test-ops    |cpu/block-sparse-attn.inc|t == g \|\| j >= a->n_k|t == g
test-attn   |cpu/columns.inc|l0[w->nb - 1] *= (float) (a->n_k - (w->nb - 1)*G)/G;|
test-attn   |cpu/columns.inc|for (int t = tail; t < G; t++) c[i][t] = -INFINITY;|(void) tail;
test-attn   |cpu/columns.inc|u[y] = mra_named_key(u[y], mra_columns_named(a, w->x0 + i, y));|u[y] += mra_columns_named(a, w->x0 + i, y);
test-attn   |cpu/columns.inc|for (int t = 0; t < n_e; t++) l0[e[t]] = -INFINITY;|
test-attn   |cpu/pack.inc|mx = v_max(x, mx); mn = v_min(x, mn);|mx = v_max(x, mx);
test-attn   |cpu/pack.inc|memset(dst + (size_t) d*es, 0, (size_t) (ld - d)*es);|
test-attn   |attn.c|if (i == 0) zero_rows(&a, a.n_k > 0 ? a.n_q : 0, n_rows);|(void) zero_rows;
test-attn   |pack.c|const int64_t head_kv = j->q ? head/(j->q->ne[2]/j->k->ne[2]) : head;|const int64_t head_kv = head % j->k->ne[2];
test-attn   |pack.c|if (ith == 0) atomic_store_explicit|if (0) atomic_store_explicit
test-attn   |node.c|lq = n_q == n_k ? lk : r.n_q;|lq = r.n_q;
test-golden |cpu/columns.inc|w->x0 + i, w->x0 + i + 1);|w->x0, w->x0 + 1);
test-golden |mra-attn.c|(uint16_t) (i ? 0 : a->first_n)|0
test-int8   |cpu/int8-query.inc|sum * -KEY_BIAS|sum * (1 - KEY_BIAS)
test-int8   |cpu/int8-query.inc|<= limit) << i|<= limit * 1e30f) << i
test-int8   |cpu/int8-query.inc|state[a->dv] - dot * a->scale|state[a->dv]
test-int8   |cpu/int8-query.inc|state[c] / p->v_factor[c]|state[c] * p->mean[0]
test-int8   |cpu/int8-attn.inc|v_load(s->q_scale + (n0 + n) * VL), v_log2)|v_load(s->q_scale + (n0 + n) * VL), v_set1(0))
test-int8   |cpu/int8-attn.inc|v_store(t + j * H + i, v_set1(-INFINITY))|(void) 0
test-int8   |cpu/int8-attn.inc|v_load(s->o + c * H + n) * f);|v_load(s->o + c * H + n));
test-int8   |cpu/int8-attn.inc|* f * v_set1(p->v_factor[c + m])|* f
test-int8   |cpu/int8-attn.inc|k->idx[j + i] * DV) + c|k->idx[j] * DV) + c
test-int8   |cpu/int8-pack.inc|(lanes * r + l) * WORD|(V_STEP * l + r) * WORD
test-int8   |cpu/int8-pack.inc|v_set1(most * 0x1p-12f)), g|v_set1(0)), g
test-int8   |cpu/int8-pack.inc|range.k_step = NAN|(void) 0
test-int8   |cpu/int8-pack.inc|a <= b \|\| b != b ? b : a|a <= b ? b : a
test-int8   |cpu/int8.c|first += run;|
test-linear |cpu/linear.inc|if (r && n == PANEL) v += v_load(r + c);|(void) r;
test-linear |cpu/linear.inc|y[c] = t[c] + (r ? r[c] : 0);|y[c] = t[c];
test-linear |cpu/linear.inc|const vi neg = (vi) x >> 31;|const vi neg = (vi) x << 31;
test-linear |cpu/linear.inc|d_x_at(&s, i, l*GROUPS, a->k)|d_x_at(&s, i, 0, a->k)
test-linear |cpu/linear.inc|if (first) UNROLL for (int m = 0; m < ROWS_I; m++)|if (0) UNROLL for (int m = 0; m < ROWS_I; m++)
test-linear |cpu/linear-w.inc|const v16 ratio = (int16_t) ratios[b] - (v16){0};|const v16 ratio = (int16_t) ratios[0] - (v16){0};
test-linear |cpu/linear-w.inc|MAGIC_I - V_BIAS*sum|MAGIC_I - sum
test-linear |cpu/linear-w.inc|if (col >= w->n) {|if (0) {
test-linear |cpu/linear-w.inc|(nibbles[i] >> 4) - 8|(nibbles[i] >> 4)
test-linear |cpu/linear-w.inc|(size_t) k0*w->row_bytes/k;|0;
test-linear |cpu/linear-x.inc|*d_x_at(s, i, c/group, k) =|*d_x_at(s, i, 0, k) =
test-linear |cpu/norm.inc|for (int c = whole; c < n; c++) var +=|for (int c = n; c < n; c++) var +=
test-linear |linear.c|w[i]   = weights_of(t, p->u.linear.bias >> i & 1 ? bias[n_bias++] : NULL, first);|w[i]   = weights_of(t, p->u.linear.bias >> i & 1 ? bias[n_bias] : NULL, first);
test-linear |linear.c|if (!prepared) kern->linear_x|if (!prepared && i0 == 0) kern->linear_x
test-linear |linear.c|if (ith == 0) memset(dst->data|if (0) memset(dst->data
test-errors |linear.c|if (x->ne[0] % 32) {|if (0) {
test-errors |linear.c|\|\| residual->ne[0] != n|
test-errors |linear.c|t->ne[0] != x->ne[0] \|\||
test-sched  |cpu/vec.h|p = v_fma(p, f, v_set1(2.402265e-1f));|p = v_fma(p, f, v_set1(2.5e-1f));
test-backend|backend.c|if (c->fork) ggml_backend_event_record(c->fork, c->peer);|if (c->fork) {}
test-backend|backend.c|c->exec->fork(c->x, c->fork ? c->fork->context : NULL, &c->err)|c->exec->fork(c->x, NULL, &c->err)
test-backend|backend.c|else         ggml_backend_synchronize(c->peer);|
test-backend|backend.c|if (st == MRA_OK && c->join) ggml_backend_event_wait(c->peer, c->join);|
test-backend|backend.c|const enum mra_status st = c->exec->join(c->x, c->join ? c->join->context : NULL, &c->err);|const enum mra_status st = c->join ? c->exec->join(c->x, c->join->context, &c->err) : MRA_OK;
test-backend|backend.c|{ ggml_backend_synchronize(PEER(b)); }|{ (void) b; }
test-backend|backend.c|{ ggml_backend_event_wait(PEER(b), e); }|{ (void) b; (void) e; }
test-backend|backend.c|return t == dev_buft(d);|return ggml_backend_dev_supports_buft(peer_dev(d), t);
test-backend|backend.c|reg->api_version != GGML_BACKEND_API_VERSION|0
test-backend|backend.c|if (!mra_pack_is_foreign(t)) return|return
test-backend|backend.c|ggml_backend_sched_get_tensor_backend(sched, t) \|\||
test-backend|backend.c|return ggml_mra_is_node(t) && c->exec->supports(c->x, t);|return c->exec->supports(c->x, t);
test-backend|attn.c|if (!mra_pack_is_foreign(dst)) return dst->src[3];|if (dst) return dst->src[3];
test-backend|backend.c|{ ggml_backend_event_record(e, PEER(b)); }|{ (void) b; (void) e; }
test-errors |node.c|if (k->ne[2] != v->ne[2]) return|if (0) return
test-errors |params.c|p->budget > 1|p->budget > 2
test-encoder|encoder/graph.c|ggml_norm(b->ctx, x, b->m->eps)|ggml_norm(b->ctx, x, 1e-2f)
test-encoder|encoder/graph.c|return ggml_gelu_erf(b->ctx, x);|return ggml_gelu(b->ctx, x);
test-encoder|encoder/graph.c|first*x->nb[1] + part*n_head*d*sizeof(float)|first*x->nb[1]
test-encoder|encoder/graph.c|x->nb[1], i*x->nb[1]);|x->nb[1], 0);
test-encoder|encoder/graph.c|to->nb[1], first*to->nb[1]);|to->nb[1], 0);
test-encoder|encoder/graph.c|x = linear(b, m->cls, x, m->cls_act, NULL);|x = linear(b, m->cls, x, MRA_ACT_TANH, NULL);
test-encoder|encoder/graph.c|part[i] = qkv[1] == qkv[0] ? i : 0;|part[i] = 0;
test-encoder|encoder/graph.c|b->m->eps, b->err)|1e-2f, b->err)
test-encoder|encoder/graph.c|if (b->g->types) x = ggml_add|if (0) x = ggml_add
test-encoder|encoder/graph.c|x = ggml_get_rows(ctx, x, g->rows);|x = rows_of(&b, x, 0, s->n_rows);
test-encoder|encoder/encoder.c|p->positions[n] = t;|p->positions[n] = n;
test-encoder|encoder/encoder.c|p->types[n]     = q->tokens ? q->tokens[t].segment :|p->types[n]     = q->tokens ? 0 :
test-encoder|encoder/encoder.c|return n <= AUTO_EXACT|return n < AUTO_EXACT
test-encoder|encoder/encoder.c|exact.scale     = own.scale;|exact.scale     = 0;
test-encoder|encoder/encoder.c|if (p.counts[0] >= n_blocks*n_blocks)|if (p.counts[0] >= n_blocks)
test-encoder|encoder/encoder.c|j->ctx->out + j->first[j->order[i]]*j->n_cols|j->ctx->out + j->first[i]*j->n_cols
test-encoder|encoder/encoder.c|? n - 1 : p->starts[i - p->a];|? n - 2 : p->starts[i - p->a];
test-encoder|encoder/encoder.c|p->row_to[s->n_rows++] = i;|p->row_to[s->n_rows] = s->n_rows; s->n_rows++;
test-encoder|encoder/encoder.c|if (st == MRA_OK) st = fetch(j, &p, err);|if (st == MRA_OK && a == 0) st = fetch(j, &p, err);
test-encoder|encoder/encoder.c|: 1.0/sqrt((double) n);|: 1.0;
test-encoder|encoder/encoder.c|(float) (1/sqrt(s)) : 0;|(float) (1/s) : 0;
test-encoder|encoder/encoder.c|if (s->n > m->info.n_ctx)|if (0)
test-encoder|encoder/encoder.c|if (type < 0 \|\| type >= n_types)|if (0)
test-encoder|encoder/encoder.c|w->at[i].token < 0 \|\||
test-encoder|encoder/model.c|m->info.attn.scale = scale;|
test-encoder|encoder/model.c|MRA_PROBLEM_MULTI : problem[0] == 'r'|MRA_PROBLEM_MULTI : problem[0] == 'x'
test-model-errors|encoder/model.c|if ((int64_t) n_labels != m->info.n_class) m->labels_id = -1;|
test-encoder|encoder/context.c|ctx->stats.part_ms[part] += now - ctx->part_start;|ctx->stats.part_ms[part] += now;
test-encoder|encoder/context.c|ctx->op_start = now;|
test-model-errors|encoder/gguf-check.c|if (ne == 0 \|\| ne > limit/total)|if (ne > limit/total)
test-model-errors|encoder/gguf-check.c|ne > limit/total|0
test-model-errors|encoder/gguf-check.c|if (ne0 % block) {|if (0) {
test-model-errors|encoder/gguf-check.c|if (names[i].len == 0 \|\| names[i].len > MAX_KEY|if (names[i].len > MAX_KEY
test-model-errors|encoder/gguf-check.c|if (offset != *end) {|if (0) {
test-model-errors|encoder/gguf-check.c|unpadded > c->size - start|0
test-model-errors|encoder/gguf-check.c|if (type != GGUF_TYPE_UINT32 \|\| is_array)|if (0)
test-model-errors|encoder/gguf-check.c|compare_names(&names[i - 1], &names[i]) == 0|0
test-model-errors|encoder/gguf-check.c|names[i].len >= GGML_MAX_NAME|names[i].len > GGML_MAX_NAME
test-model-errors|encoder/gguf-check.c|if (n > left(c)/size) {|if (0) {
test-model-errors|encoder/gguf-file.c|if (x < lo \|\| x > hi) {|if (x < lo) {
test-model-errors|encoder/model.c|if (t->ne[0] != ne0 \|\||if (
test-model-errors|encoder/model.c|vector ? t->type != GGML_TYPE_F32 :|vector ? false :
test-model-errors|encoder/model.c|: !is_matrix_type(t->type))|: false)
test-model-errors|encoder/model.c|if (m->position_embd->ne[1] < i->n_ctx) {|if (0) {
test-model-errors|encoder/model.c|if (n > m->info.n_vocab)|if (0)
test-encoder-text|encoder/model.c|n[n[1] > n[0] \|\| n[0] == 0]--|n[n[0] == 0]--
test-encoder-text|encoder/model.c|if (t < 0 \|\| seen[t]++ < n[t])|if (t < 0 \|\| seen[t]++ > n[t])
test-encoder-text|encoder/vocab.c|v->lowercase = v->strip_accents = uncased;|
test-encoder-text|encoder/vocab.c|KEY("seperator_token_id")|KEY("padding_token_id")
test-encoder-text|encoder/vocab.c|v->scores = scores;|v->scores = NULL;
test-model-errors|encoder/vocab.c|v->charsmap = st == MRA_OK ? map : NULL;|v->n_charsmap = 0;
test-quantize|encoder/quantize.c|strcmp(name, "token_types.weight") == 0|0
test-quantize|encoder/quantize.c|a.st_ino == b.st_ino|0
test-quantize|encoder/quantize.c|if (st != MRA_OK) unlink(w->tmp);|
test-quantize|encoder/quantize.c|(align - n % align) % align|0
test-quantize|encoder/quantize.c|ggml_quantize_chunk(k->to, rows, k->dst + (size_t) i*k->nb_dst,|ggml_quantize_chunk(k->to, rows, k->dst,
test-quantize|encoder/quantize.c|if (n % ggml_blck_size(type) == 0) return type;|if (n % 32 == 0) return type;
test-quantize|encoder/quantize.c|if (!is_plain(t->type)) {|if (0) {
test-encoder-text|encoder/vocab.c|id >= 0 ? (int32_t) id : find_token(|id >= 0 ? (int32_t) id : -1; (void) (
test-encoder-device|encoder/context.c|ctx->companion = ggml_backend_mra_init(backend, &ctx->no_companion);|(void) backend;
test-encoder-device|encoder/context.c|for (int i = ctx->n_backends - 1; i >= 0; i--) ggml_backend_free|for (int i = 0; i < ctx->n_backends; i++) ggml_backend_free
test-encoder-device|encoder/model.c|if (!in_place) ggml_backend_tensor_set|if (0) ggml_backend_tensor_set
LIST
echo "mutants: $caught caught, $survived not caught"
[ "$survived" = 0 ]
