#!/bin/sh
# Seeded bugs: each line changes one place of a copy of the sources; a test that names it must then fail. A mutant that
# survives means a test that cannot fail. Opt-in (make mutants): it rebuilds the kernels for every line.
# usage: mutants.sh SOURCE BUILD   (BUILD: a configured build folder; only its ggml is reused)
set -u
src=$(cd "$1" && pwd); build=$(cd "$2" && pwd); work=$build/mutants
ggml=$(sed -n 's/^ggml_SOURCE_DIR:STATIC=//p' "$build/CMakeCache.txt")
rm -rf "$work"; mkdir -p "$work"
cp -r "$src/CMakeLists.txt" "$src/ggml-mra" "$src/tests" "$src/examples" "$work/"
cmake -S "$work" -B "$work/build" -DGGML_MRA_GGML_DIR="$ggml" -DCMAKE_BUILD_TYPE=Release -DGGML_MRA_KERNEL_OPT=-O1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" -j 2 --target test-ops test-attn test-golden test-sched test-errors >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }

caught=0; survived=0
while IFS='|' read -r test file from to; do
    case "$test" in ''|'#'*) continue ;; esac
    test=$(echo $test); file=ggml-mra/src/$(echo $file)
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
test-ops    |compute.c|keys[n++] = r.s[i] - max + named*MRA_PRIOR;|keys[n++] = r.s[i] + named*MRA_PRIOR;
test-ops    |compute.c|<= diag_n/2)|< diag_n/2)
test-ops    |compute.c|w[n] = (float) min_i(c->g, n_k - col*c->g);|w[n] = (float) c->g;
test-ops    |cpu/coarse.inc|if (corr != 1) for|if (0) for
test-ops    |cpu/block-sparse-attn.inc|v_load(o + c)*v_set1(corr[r])|v_load(o + c)
test-ops    |cpu/block-sparse-attn.inc|j + 16 <= n_key && (!idx|(!idx
test-ops    |cpu/block-sparse-attn.inc|t == g \|\| j >= a->n_k|t == g
test-attn   |cpu/columns.inc|l0[w->nb - 1] *= (float) (a->n_k - (w->nb - 1)*G)/G;|
test-attn   |cpu/columns.inc|for (int t = tail; t < G; t++) c[i][t] = -INFINITY;|(void) tail;
test-attn   |cpu/columns.inc|u[y] += MRA_PRIOR;|u[y] += 0;
test-attn   |cpu/columns.inc|for (int t = 0; t < n_e; t++) l0[e[t]] = -INFINITY;|
test-attn   |cpu/pack.inc|mx = v_max(x, mx); mn = v_min(x, mn);|mx = v_max(x, mx);
test-attn   |cpu/pack.inc|memset(dst + (size_t) d*es, 0, (size_t) (ld - d)*es);|
test-attn   |attn.c|if (i == 0) zero_rows(&a, a.n_k > 0 ? a.n_q : 0, n_rows);|(void) zero_rows;
test-attn   |pack.c|const int64_t head_kv = j->q ? head/(j->q->ne[2]/j->k->ne[2]) : head;|const int64_t head_kv = head % j->k->ne[2];
test-attn   |pack.c|if (ith == 0) atomic_store_explicit|if (0) atomic_store_explicit
test-attn   |node.c|lq = n_q == n_k ? lk : r.n_q;|lq = r.n_q;
test-golden |cpu/columns.inc|const float inv = 1.0f/n;|const float inv = 1.0f/H;
test-golden |mra-attn.c|(uint16_t) (i ? 0 : a->first_n)|0
test-sched  |cpu/vec.h|p = v_fma(p, f, v_set1(2.402265e-1f));|p = v_fma(p, f, v_set1(2.5e-1f));
test-errors |node.c|if (k->ne[2] != v->ne[2]) return|if (0) return
test-errors |params.c|p->budget > 1|p->budget > 2
LIST
echo "mutants: $caught caught, $survived not caught"
[ "$survived" = 0 ]
