#!/bin/sh
# Seeded bugs of the library: each line of the list changes one place of a copy of the sources; the test it names must then fail.
# A mutant that survives means a test that cannot fail. Opt-in (make mutants); ctest looks whether every line fits.
# usage: mutants.sh SOURCE BUILD [WORD]   BUILD: a configured build folder, only its ggml is reused; WORD: only lines that have it
#        mutants.sh SOURCE -              only whether every line fits
# The list: see seeded-bugs.sh. Files are in ggml-mra/src, or encoder/... TEST: a program, or "kernels": test-kernels,
# test-kernels-extreme and test-kernels-extreme-attn on one level, compiled without the rest.
set -u
src=$(cd "$1" && pwd); only=${3:-}; work=$src; fit=1; log=
if [ "$2" != - ]; then
    build=$(cd "$2" && pwd); work=$build/mutants${PART:+-${PART%/*}}; fit=0; log=$work/log
    ggml=$(sed -n 's/^ggml_SOURCE_DIR:STATIC=//p' "$build/CMakeCache.txt")
    rm -rf "$work"; mkdir -p "$work/kernels"
    cp -r "$src/CMakeLists.txt" "$src/ggml-mra" "$src/tests" "$src/examples" "$work/"
fi
. "$src/tests/seeded-bugs.sh"

places() {
    for f in $1; do
        case "$f" in encoder/*) echo "$work/ggml-mra"/$f ;; *) echo "$work/ggml-mra/src"/$f ;; esac
    done
}

# -fexpensive-optimizations, here and for cmake: without it -O1 makes no fused multiplications, which the reference of integers states
cflags="-std=c11 -O1 -fexpensive-optimizations -ffp-contract=fast -fno-math-errno -fno-trapping-math"
v3="-march=x86-64-v3"; v3_vnni="$v3 -mavxvnni"
v4_amx="-march=x86-64-v4 -mavx512vnni -mavx512bf16 -mavx512vbmi -mamx-tile -mamx-bf16 -mamx-int8"
kernels=$work/kernels
compile() { cc $cflags -I"$work/ggml-mra/src/cpu" "$@"; }
level() { # NAME FLAGS...: a level of the kernels, whole
    name=$1; shift; compile "$@" -c "$work/ggml-mra/src/cpu/isa-$name.c" -o "$kernels/$name.o"
}
tables() { # levels that "kernels" never runs
    printf '#include "../kernels.h"\nconst struct mra_kernels mra_kernels_v4 = { .name = "v4" };\n'
    printf 'const struct mra_dense_kernels mra_dense_v4_amx;\nconst struct mra_int8_kernels mra_int8_v4_amx;\n'
    for i in v3_vnni v4_vnni; do printf 'const struct mra_dense_kernels mra_dense_%s;\nconst struct mra_int8_kernels mra_int8_%s;\n' $i $i; done
}

# "kernels": without ggml, so without cmake
rest_build() { # objects besides those of the levels
    for f in "$work"/ggml-mra/src/ref/*.c "$work"/ggml-mra/src/cpu/dispatch.c "$work"/ggml-mra/src/cpu/int8.c \
        "$work"/tests/test-kernels*.c; do
        o=$kernels/$(basename "$(dirname "$f")")-$(basename "$f" .c).o
        [ "$o" -nt "$f" ] || cc -std=c11 -O1 -D_GNU_SOURCE -c "$f" -o "$o" || return 1
    done
}
kernels_link() { # OBJECT...: of the level v3
    for t in test-kernels test-kernels-extreme test-kernels-extreme-attn; do
        cc -o "$kernels/$t" "$kernels/tests-$t.o" "$@" "$kernels"/ref-*.o "$kernels"/cpu-*.o "$kernels/base.o" "$kernels/tables.o" -lm || return 1
    done
}
v3_build() { # unless nothing it is made of has changed
    [ -e "$kernels/v3.o" ] && [ -z "$(find "$work"/ggml-mra/src/cpu "$work"/ggml-mra/src/*.h -newer "$kernels/v3.o")" ] || level v3 $v3
}
kernels_build() { rest_build && v3_build && kernels_link "$kernels/v3.o"; }
kernels_test() {
    for t in test-kernels test-kernels-extreme test-kernels-extreme-attn; do timeout -k 10 300 "$kernels/$t" v3 30 || return 1; done
}

# the rest by cmake, configured when first needed
cmake_build() {
    [ -d "$work/build" ] || cmake -S "$work" -B "$work/build" -DGGML_MRA_GGML_DIR="$ggml" -DCMAKE_BUILD_TYPE=Release \
        "-DGGML_MRA_KERNEL_OPT=-O1;-fexpensive-optimizations" || { rm -rf "$work/build"; return 1; }
    cmake --build "$work/build" -j 2 --target "$1"
}
build_test() { if [ "$1" = kernels ]; then kernels_build; else cmake_build "$1"; fi; }
run_test() {
    if [ "$1" = kernels ]; then MRA_FAIL_FAST=1 kernels_test; else
        MRA_FAIL_FAST=1 timeout -k 10 1500 ctest --test-dir "$work/build" -R "^$1\$" --no-tests=error; fi
}

# A level takes 20 seconds to compile, most kernels less than one. So a bug in a kernel is put into the level v3 (and into v3-vnni, if it has
# this kernel) alone: the kernel is compiled by itself and replaces the table's when the program starts.
whole_build() { # from the sources as they are: the levels under other names, and what "kernels" has of the others
    printf '#define MRA_KERNELS mra_kernels_whole\n#define MRA_ISA_NAME "v3"\n#include "kernels.inc"\n' >"$kernels/whole.c"
    printf '#define MRA_DENSE mra_dense_whole\n#define MRA_INT8 mra_int8_whole\n#include "dense.inc"\n' >"$kernels/whole-vnni.c"
    tables >"$kernels/tables.c"
    compile $v3 -c "$kernels/whole.c" -o "$kernels/whole.o" && compile $v3_vnni -c "$kernels/whole-vnni.c" -o "$kernels/whole-vnni.o" &&
        compile -c "$kernels/tables.c" -o "$kernels/tables.o" && level base -march=x86-64-v2
}
start="__attribute__((constructor(101))) static void start(void)"
alone() { # FILE MEMBER VALUE: replaces the member of the table v3
    printf '#include "../kernels.h"\n#include "vec.h"\n#include "%s"\nextern const struct mra_kernels mra_kernels_whole;\n' "$1"
    printf 'struct mra_kernels table __asm__("mra_kernels_v3");\n%s {\n    table = mra_kernels_whole;\n    table.%s = %s;\n}\n' "$start" "$2" "$3"
}
alone_vnni() { # FILE TYPE VALUE OTHER: the table of this type of v3-vnni is new, the other one is the whole level's
    printf '#include "%s"\nextern const struct mra_%s_kernels mra_%s_whole;\n' "$1" "$4" "$4"
    printf 'const struct mra_%s_kernels mra_%s_v3_vnni = %s;\n' "$2" "$2" "$3"
    printf 'struct mra_%s_kernels other __asm__("mra_%s_v3_vnni");\n%s { other = mra_%s_whole; }\n' "$4" "$4" "$start" "$4"
}
write_alone() { # FILE: alone.c, and alone-vnni.c where v3-vnni has this kernel; fails where no kernel can be built by itself
    dense="(struct mra_dense_kernels) { .linear_x = linear_x, .linear = linear }"
    int8="(struct mra_int8_kernels) { .form = MRA_INT8_WORDS, .bytes = sizeof(small), .pack = int8_pack, .attn = int8_attn, .window_attn = int8_window_attn }"
    bytes="{ .form = MRA_INT8_BYTES, .bytes = sizeof(small), .pack = int8_pack, .attn = int8_attn, .window_attn = int8_window_attn, .means = int8_means, .scores = int8_scores, .values = int8_values }"
    rm -f "$kernels/alone-vnni.c" "$kernels/alone-vnni.o"
    case $1 in
        */cpu/*-matrix.inc) cat "$work/tests/isa-matrix.c" ;;
        */cpu/columns*.inc) alone columns.inc columns columns ;;
        */cpu/linear*.inc)  alone linear.inc dense "$dense"
            alone_vnni linear.inc dense "{ .linear_x = linear_x, .linear = linear, .bytes = true }" int8 >"$kernels/alone-vnni.c" ;;
        */cpu/int8-*.inc|*/cpu/int8-rows.h) alone int8.inc int8 "$int8"
            alone_vnni int8.inc int8 "$bytes" dense >"$kernels/alone-vnni.c" ;;
        */cpu/amx-*.inc)    printf '#define MRA_DENSE mra_dense_v4_amx\n#define MRA_INT8 mra_int8_v4_amx\n#define MRA_FLOATS mra_kernels_v4\n#include "amx.inc"\n' ;; # the whole of it
        */cpu/*.inc)        f=$(basename "$1"); m=$(basename "$1" .inc | tr - _); alone "$f" "$m" "$m" ;;
        *) return 1 ;;
    esac >"$kernels/alone.c"
}
# quick_test FILE TEST: fails where the bug is found; 0: not found, or this file cannot be tried like that
quick_test() {
    write_alone "$1" || return 0
    objects="$kernels/alone.o $kernels/whole.o"
    flags=$v3; case $1 in */cpu/amx-*) flags=$v4_amx ;; esac
    compile $flags -c "$kernels/alone.c" -o "$kernels/alone.o" || return 0
    if [ -e "$kernels/alone-vnni.c" ]; then
        compile $v3_vnni -c "$kernels/alone-vnni.c" -o "$kernels/alone-vnni.o" || return 0
        objects="$objects $kernels/alone-vnni.o $kernels/whole-vnni.o"
    fi
    if [ "$2" = kernels ]; then rest_build && kernels_link $objects || return 0 # the line before may have changed ref/
    else
        link=$work/build/tests/CMakeFiles/$2.dir/link.txt # of cmake's makefiles
        [ -e "$link" ] && (cd "$work/build/tests" && eval "$(sed "s# -o # $(echo $objects) -o #" "$link")") || return 0
    fi
    run_test "$2"; found=$?
    [ "$2" = kernels ] || rm -f "$work/build/bin/$2" # to be linked again
    return $found
}

[ $fit = 1 ] || whole_build >"$log" 2>&1 || { tail "$log"; exit 1; }
seeded_bugs <<'LIST'
kernels     |cpu/pool.inc|const float inv = 1.0f / n;|const float inv = 1.0f / block;
kernels     |cpu/pool.inc|v_min(r, acc) : v_max(r, acc)|v_max(r, acc) : v_max(r, acc)
kernels     |cpu/pool.inc|if (kind != MRA_POOL_KIND_MEAN) nan \!= r != r;|
kernels     |cpu/pool.inc|\!\! r != r) acc = r;|) acc = r;
kernels     |cpu/block-score.inc|v_max(p, qv * v_load(k_max + j * ldk + c))|p
kernels     |cpu/block-score.inc|for (int t = c; t < d; t++)|for (int t = c; t < d - 1; t++)
kernels     |cpu/block-score.inc|if (bound) nan[j] \!= p != p;|
kernels     |cpu/block-score.inc|a > b \!\! a != a ? a : b|a > b ? a : b
kernels     |cpu/topk-blocks.inc|x[i] == th.t && n_eq-- > 0|x[i] == th.t
kernels     |cpu/topk-blocks.inc|if (th.n_ge == m)|if (th.n_ge >= m)
kernels     |cpu/topk-blocks.inc|if (c_hi >= *m) return|if (0) return
kernels     |cpu/topk-blocks.inc|v_hmax(mx) + 0.0f;|v_hmax(mx);
test-extreme|op-coarse-state.c|if (score < INFINITY) continue;|continue;
test-extreme|op-coarse-state.c|if (score < INFINITY) continue;|if (!(score != score)) continue;
kernels     |cpu/coarse-state.inc|if (corr != 1)|if (0)
kernels     |cpu/coarse-state.inc|\!\! s[j] != s[j]||
kernels     |cpu/coarse-state.inc|if (m == -INFINITY) return;|
kernels     |cpu/block-sparse-attn.inc|v_load(o + c) * v_set1(corr[r])|v_load(o + c)
kernels     |cpu/block-sparse-attn.inc|(size_t) idx[j + m] : first + (j|(size_t) idx[j] : first + (j
kernels     |cpu/block-sparse-attn.inc|t == g \!\! j >= a->n_k|t == g
kernels     |cpu/block-sparse-attn.inc|empty ? -FLT_MAX : max0|empty ? -1e30f : max0
kernels     |cpu/block-sparse-attn.inc|max0 < INFINITY ? sum0 : NAN|sum0
kernels     |cpu/block-sparse-attn.inc|f = sum == 0 ? 0 : 1 / sum|f = sum > 0 ? 1 / sum : 0
kernels     |cpu/vec.h|v_exp2_parts(x, v_min(x, v_set1(0)))|v_exp2_parts(x, x)
kernels     |cpu/vec.h|p = v_fma(p, f, v_set1(2.402265e-1f));|p = v_fma(p, f, v_set1(2.5e-1f));
kernels     |cpu/columns*.inc|block[last] *= (float) (a->n_k - last * w->g) / w->g;|
kernels     |cpu/columns*.inc|for (int t = tail; t < g; t++) logits_of(w, last[i])[t] = -INFINITY;|(void) tail;
kernels     |cpu/columns*.inc|score[y] = mra_named_key(score[y], mra_columns_named(a, w->x0 + i, y));|score[y] += mra_columns_named(a, w->x0 + i, y);
kernels     |cpu/columns*.inc|for (int t = 0; t < n; t++) pooled[list[t]] = -INFINITY;|(void) pooled;
kernels     |cpu/columns*.inc|w->x0 + i, w->x0 + i + 1);|w->x0, w->x0 + 1);
kernels     |cpu/columns*.inc|th.t = NAN;|th.t = INFINITY;
kernels     |cpu/columns*.inc|v_set1(m > 0 ? th.t : NAN)|v_set1(m > 0 ? th.t : INFINITY)
kernels     |cpu/columns*.inc|total == total ? m : NAN|m
kernels     |cpu/columns*.inc|bad \!= v != v;|
kernels     |cpu/columns*.inc|if (fabsf(m) <= OFFSET_MAX)|if (true)
kernels     |cpu/columns*.inc|for (int t = n; t < MRA_ROUND_UP(n, TILE_KEYS) + TILE_KEYS; t++) kept[t] = n ? kept[n - 1] : 0;|
kernels     |cpu/columns*.inc|n_key = y == w->n_block - 1 ? w->a->n_k - y * g : g;|n_key = g;
kernels     |cpu/columns*.inc|v_set1(f * mean[c]), v_set1(k_mean[c])|v_set1(mean[c]), v_set1(k_mean[c])
kernels     |cpu/columns*.inc|centre_state(w, s, i);|(void) 0;
kernels     |cpu/columns*.inc|v_load(bias + first + j)|v_load(bias + j)
kernels     |cpu/columns*.inc|j < left ? logits[b * g + j] + bias[first + j]|j < left ? logits[b * g + j]
kernels     |cpu/columns*.inc|w->n_column + y] += top[y];|w->n_column + y] += 0;
kernels     |cpu/columns*.inc|all ? j : 0, all ? NULL|0, all ? NULL
kernels     |cpu/columns*.inc|a->sorted.q_mean + (size_t) (w->x0 + i)|a->sorted.q_mean + (size_t) i
kernels     |cpu/columns*.inc|w->a->sorted.all_keys[w->x0 + i]|w->a->sorted.all_keys[i]
kernels     |cpu/block-sparse-attn.inc|float * out = a->out + mra_query_at(a, i) * a->ld_out;|float * out = a->out + i * a->ld_out;
kernels     |cpu/pack.inc|a->m1 * G < a->n_k;|a->m1 * G < a->n_k - 40;
kernels     |ref/columns.c|mra_ref_score(cmax + centre(a, row, qm))|mra_ref_score(cmax)
kernels     |cpu/pack.inc|mn = v_min(x, mn);|
kernels     |cpu/pack.inc|mx = v_min(mx, v_set1(FLT_MAX));|
kernels     |cpu/pack.inc|memset(dst + (size_t) d * es, 0, (size_t) (ld - d) * es);|
kernels     |cpu/norm.inc|for (int c = whole; c < n; c++) var +=|for (int c = n; c < n; c++) var +=
kernels     |cpu/norm.inc|if (!(var <= FLT_MAX)) {|if (0) {
kernels     |cpu/norm.inc|const float mean = rms ? 0 : mean_of(x, n);|const float mean = mean_of(x, n);
kernels     |cpu/norm.inc|b ? v_load(b + c) : v_set1(0)|v_load(w + c)
kernels     |cpu/linear-act.inc|(vi) (e * pos) & neg|(vi) pos & neg
kernels     |cpu/glu.inc|v_store(g, v_glu(v_load(g), v_load(u), act));|
kernels     |cpu/rope.inc|for (; c < r; c++) {|for (; c < r - 1; c++) {
kernels     |cpu/rope.inc|v_store(x + c, a * u - b * v);|v_store(x + c, a * u + b * v);
kernels     |cpu/rope.inc|other = interleaved ? 1 : r;|other = r;
kernels     |cpu/window-attn.inc|dist <= v_set1(window)|dist < v_set1(window)
kernels     |cpu/window-attn.inc|slope != 0 \!\! (float) reach > limit|(float) reach > limit
kernels     |cpu/window-attn.inc|i0 < window ? 0 : i0 - window|i0 < window ? 0 : i0
kernels     |cpu/window-attn.inc|a->n_k - i1 < window ? a->n_k : i1 + window|a->n_k - i1 < window ? a->n_k : i1
test-rope   |*.c *.h|p->u.rope_table.scale * pow|pow
test-rope   |op-rope.c|.d = d, .n_head = n_head,|.d = d, .n_head = n_head - 1,
test-layers |*.c *.h|row[c] = (float) cos(positions[i] * freq[c]);|row[c] = cosf((float) positions[i] * (float) freq[c]);
test-layers |*.c *.h|while (2 * m <= n_head) m *= 2;|m = n_head;
test-layers |*.c *.h|a.scale = w->scale;|
kernels     |ref/topk-blocks.c|left-- > 0|left > 0
kernels     |ref/columns.c|if (m == -INFINITY) m = 0;|
kernels     |ref/columns.c|blocks[y].taken = 1;|blocks[y].taken = 0;
kernels     |ref/block-sparse-attn.c|return mra_ref_score(a->scale * mra_ref_dot(a->q, i, a->k, j, a->d));|return a->scale * mra_ref_dot(a->q, i, a->k, j, a->d);
test-races-attn|op-pack.c|if (item++ % nth != ith) continue;|item++;
test-races-attn|op-pack.c|return atomic_fetch_add_explicit((atomic_int *) j->mem, 1, memory_order_relaxed);|return (*(int *) j->mem)++;
test-races-linear|op-linear.c|(s = atomic_fetch_add(counter, 1))|(s = (*(int *) counter)++)
test-attn-levels|op-attn-levels.c|c->block_score[y] += top;|
test-attn-levels|op-attn-levels.c|if (bias) s[j] += bias[j0 + j];|
test-attn-levels|op-attn-levels.c|place_of(a, i) / H|i / H
test-attn-levels|op-attn-levels.c|l + 1 < n_list ? l + 1 : MRA_LEVEL_EXACT|MRA_LEVEL_EXACT
test-attn-levels|op-attn-levels.c|a->sorted.all_keys[x]|0
test-attn-levels|op-attn-levels.c|mra_named_key(c->block_score[y], mra_columns_named(a, x, y))|c->block_score[y]
test-span-pool|op-span-pool.c|return isnan(a) \!\! a >= b ? a : b;|return a >= b ? a : b;
test-span-pool|op-span-pool.c|(int) (d - c < STRIP ? d - c : STRIP)|STRIP
test-span-pool|node-params.h|if (r.n > n_rows - r.first) r.n = n_rows - r.first;|
test-span-pool|op-span-pool.c|double sum[STRIP];|float sum[STRIP];
test-attn-error|op-attn-error.c|sums[MRA_ATTN_ERROR_R] += r;|sums[MRA_ATTN_ERROR_R] += e;
test-head-plan|encoder/attention.c|if (e.high <= p->max_error|if (e.low / 4 <= p->max_error
test-head-plan|encoder/head-plan.c|if (gguf_get_val_u64(f->gguf, id) != m->plan_model)|if (0)
test-encoder-attention|encoder/pass.c|(n > 1 ? 0 : (size_t) at) * e->nb[2]|0
test-encoder-attention|encoder/graph-attention.c|+ of->at[c];|;
test-encoder-attention|encoder/graph-attention.c|x.seq = seqs[i];|x.seq = i;
test-shares |op-pack.c|((const float *) shares->data)[head]|((const float *) shares->data)[0]
test-attn-error|op-attn-error.c|a.scale = e->scale;|
test-attn-error|op-attn-error.c|a->out + rows[i] * a->ld_out|a->out + i * a->ld_out
test-attn-error|op-attn-error.c|left = 1 - m / s[MRA_ATTN_ERROR_ALL];|left = 1;
test-levels |cpu/x86-levels.h|1 << 12 \! 1 << 22 \! 1 << 27|1 << 12 \! 1 << 27
test-levels |cpu/x86-levels.h|X86_EC_V3 = 1 << 5,|X86_EC_V3 = 0,
test-levels |cpu/x86-levels.h|1u << 28 \! 1u << 30|1u << 30
test-levels |cpu/dispatch.c|if (unknown) say_unknown(name, k->name);|
test-ops    |*.c *.h|fill_inf(out + n, mra_level_cols(l) - n);|(void) fill_inf;
test-ops    |*.c *.h|mra_named_key(r.scores[i] - max, named) : r.scores[i] - max;|mra_named_key(r.scores[i], named) : r.scores[i];
test-encoder|*.c *.h|mra_named_key(r.scores[i] - max, named) : r.scores[i] - max;|r.scores[i] - max + named*1e6f : r.scores[i] - max;
test-ops    |*.c *.h|x - y : y - x) <= diag_n/2)|x - y : y - x) < diag_n/2)
test-ops    |*.c *.h|w[n] = (float) mra_min(g, n_k - y[n] * g);|w[n] = (float) g;
test-attn   |*.c *.h|if (i == 0) mra_zero_rows(a, a->n_k > 0 ? a->n_q : 0, n_rows);|
test-attn   |*.c *.h|const int64_t head_kv = j->q ? head/(q->ne[2]/j->k->ne[2]) : head;|const int64_t head_kv = head % j->k->ne[2];
test-attn   |*.c *.h|if (ith == 0) atomic_store_explicit|if (0) atomic_store_explicit
test-attn   |*.c *.h|lq = n_q == n_k ? lk : n_q;|lq = n_q;
test-golden |*.c *.h|(uint16_t) (i ? 0 : a->first_n)|0
test-linear matrix|cpu/linear-matrix.inc|{ p[0], p[0], p[1], p[1] }|{ p[0], p[1], p[0], p[1] }
test-linear matrix|cpu/linear-matrix.inc|v_to_float(acc[m][j]) * of_columns(d + 2 * j), scale|v_to_float(acc[m][j]) * scale, of_columns(d + 2 * j)
test-linear matrix|cpu/linear-matrix.inc|of_columns(min + 2 * j)|of_columns(min)
test-linear matrix|cpu/linear-matrix.inc|(m * STEPS + k) * 2|(m * STEPS) * 2
test-linear matrix|cpu/linear-matrix.inc|&sum[m][2 * j + 1], row[2 * m * NR + j]|&sum[m][2 * j + 1], row[2 * m * NR]
test-linear matrix|cpu/linear-x.inc|if (V_MATRIX && !few) x_pair_up|if (0) x_pair_up
test-linear matrix|cpu/linear-x.inc|k)) + i % 2 * V_DEEP|k))
test-linear |cpu/linear*.inc|if (r) v += v_load(r + c);|(void) r;
test-linear |cpu/linear*.inc|y[c] = f[c] + (r ? r[c] : 0);|y[c] = f[c];
test-linear |cpu/linear*.inc|const vi neg = (vi) x >> 31;|const vi neg = (vi) x << 31;
test-linear |cpu/linear*.inc|const size_t g = group_at(i, group, a->k);|const size_t g = group_at(i, 0, a->k);
test-linear |cpu/linear*.inc|.x = s->x_i + x_group_at(i, group, a->k),|.x = s->x_i + x_group_at(i, 0, a->k),
test-linear |cpu/linear*.inc|at.w += piece / V_STEP * PANEL;|
test-linear |cpu/linear*.inc|if (t->stream) v_stream(y + j * VL, v);|if (t->stream) (void) y;
test-linear |cpu/linear*.inc|t->first ? v_set1(0) : v_load(t->f + m * PANEL + j0 + j * VL);|v_load(t->f + m * PANEL + j0 + j * VL);
test-linear |cpu/linear*.inc|sum_x[g * ROWS_I + m]|sum_x[g * ROWS_I]
test-linear |cpu/linear*.inc|ratio = ratio_at(&r->mul[b][i]);|ratio = ratio_at(&r->mul[0][i]);
test-linear |cpu/linear*.inc|low = (v & 15) - 8;|low = (v & 15) - 7;
test-linear |cpu/linear*.inc|(w2 >> (at + 4) & 15) \! (w1 >> (at + 6) & 3) << 4|(w2 >> (at + 4) & 15)
test-linear |cpu/linear*.inc|v_set1(-4) * min_b[b]|v_set1(4) * min_b[b]
test-linear |cpu/linear*.inc|V_START - V_BIAS * sum);|V_START - sum);
test-linear |cpu/linear*.inc|* -scale_min|* scale_min
test-linear |cpu/linear*.inc|r[i] = (vi) ((v8) r[i] - 8);|r[i] = (vi) ((v8) r[i]);
test-linear |cpu/linear*.inc|(size_t) k0 * w->row_bytes / k;|0;
test-linear |cpu/linear*.inc|x_scale(s, group_at(i, b + c, k), d[c]|x_scale(s, group_at(i, c, k), d[c]
test-linear |cpu/linear*.inc|r[m / PARTS][p] += fold_lanes(sum + m,|r[m / PARTS][p] += fold_lanes(sum,
test-linear |cpu/linear*.inc|r[0][p] += fold_lanes(sum + i, 1);|r[0][p] += fold_lanes(sum, 1);
test-linear |cpu/linear*.inc|slice = n <= FEW_F ? a->k : slice_of_floats(a->k)|slice = slice_of_floats(a->k)
test-linear |*.c *.h|weights_of(t, mra_source(dst, p, MRA_SRC_BIAS + i), of->gated|weights_of(t, mra_source(dst, p, MRA_SRC_BIAS), of->gated
test-linear |*.c *.h|if (!prepared) kern->linear_x|if (!prepared && i0 == 0) kern->linear_x
test-linear |*.c *.h|if (ith == 0) memset(dst->data, 0, counters_of|if (0) memset(dst->data, 0, counters_of
test-ffn    |cpu/linear*.inc|g->sum = sum[m];|g->sum = 0;
test-ffn    |cpu/linear*.inc|q[j] ^= flip;|(void) flip;
test-ffn    |cpu/linear*.inc|x_scale(s, group_at(i, b, k), x[b].d|x_scale(s, group_at(i, b, k), x[0].d
test-ffn    |cpu/linear*.inc|of_gate.f = s.gate;|
test-ffn    |cpu/linear*.inc|v_load(gate + c * VL) + bias_gate[c]|v_load(gate + c * VL)
test-ffn    |cpu/linear*.inc|finish(&sums, p->i0, done, end - done, a->stream); done = end;|finish(&sums, p->i0, done, end - done, a->stream);
test-ffn    |cpu/linear*.inc|finish(sums, p->i0, done, end - done, a->stream); done = end;|finish(sums, p->i0, done, end - done, a->stream);
test-ffn    |cpu/linear*.inc|const bool last = next == 0 && !p->sums, here|const bool last = next == 0, here
test-ffn    |*.c *.h|: part_of(j->w[0], first / 2, first / 2);|: part_of(j->w[0], 0, first / 2);
test-ffn    |*.c *.h|if (w.bias) w.bias += from;|
test-ffn    |*.c *.h|return kern->bytes \!\! !(a->x_bytes \!\! a->y_bytes) ? kern : &mra_kernels_ref.dense;|return kern;
test-ffn    |*.c *.h|.bytes = mra_kernels_get()->dense.bytes && ggml_is_quantized(f->down.w->type) && n % 32 == 0|.bytes = false
test-errors |*.c *.h|if (is_bytes(x) && *floats) return|if (0) return
test-errors |*.c *.h|return p.kind == MRA_KIND_LINEAR && p.u.linear.bytes;|return x->type == GGML_TYPE_I8;
test-errors |*.c *.h|is_float(w[0].w->type) != is_float(w[1].w->type)|false
test-errors |*.c *.h|if (values_of(x) % K_MULTIPLE)|if (0)
test-errors |*.c *.h|\!\! residual->ne[0] != *n|
test-errors |*.c *.h|t->ne[0] != k \!\!|
test-backend|backend.c|if (c->fork) ggml_backend_event_record(c->fork, c->peer);|if (c->fork) {}
test-backend|backend.c|c->exec->fork(c->state, c->fork ? c->fork->context : NULL, &c->err)|c->exec->fork(c->state, NULL, &c->err)
test-backend|backend.c|else         ggml_backend_synchronize(c->peer);|
test-backend|backend.c|if (st == MRA_OK && c->join) ggml_backend_event_wait(c->peer, c->join);|
test-backend|backend.c|const enum mra_status st = c->exec->join(c->state, c->join ? c->join->context : NULL, &c->err);|const enum mra_status st = c->join ? c->exec->join(c->state, c->join->context, &c->err) : MRA_OK;
test-backend|backend.c|{ ggml_backend_synchronize(PEER(b)); }|{ (void) b; }
test-backend|backend.c|{ ggml_backend_event_wait(PEER(b), e); }|{ (void) b; (void) e; }
test-backend-choice|backend.c|return t == dev_buft(d);|return ggml_backend_dev_supports_buft(peer_dev(d), t);
test-backend-choice|backend.c|reg->api_version != GGML_BACKEND_API_VERSION|0
test-backend|backend.c|if (!mra_pack_is_foreign(t)) return|return
test-backend|backend.c|pin_memory(sched, t, mra);|
test-backend|backend.c|if (lies_elsewhere(c, t)) return|if (0) return
test-backend|backend.c|ggml_backend_sched_get_tensor_backend(sched, t) \!\!|
test-backend-choice|backend.c|if (!ggml_mra_is_node(t)) return false;|
test-backend|*.c *.h|if (mra_pack_is_foreign(dst)) {|if (0) {
test-backend|backend.c|{ ggml_backend_event_record(e, PEER(b)); }|{ (void) b; (void) e; }
test-errors |*.c *.h|if (k->ne[2] != v->ne[2]) return|if (0) return
test-errors |*.c *.h|p->budget > 1|p->budget > 2
test-encoder|encoder/*.c|ggml_norm(b->ctx, x, eps)|ggml_norm(b->ctx, x, 1e-2f)
test-encoder|encoder/*.c|return ggml_gelu_erf(b->ctx, x);|return ggml_gelu(b->ctx, x);
test-encoder|encoder/*.c|first * h.x->nb[1] + h.at * sizeof(float)|first * h.x->nb[1]
test-encoder|encoder/*.c|x->nb[1], i*x->nb[1]);|x->nb[1], 0);
test-encoder|encoder/*.c|o, h[0].x->nb[1], first * h[0].x->nb[1]);|o, h[0].x->nb[1], 0);
test-encoder|encoder/*.c|linear(b, m->cls, x, m->arch.cls_act, NULL)|linear(b, m->cls, x, MRA_ACT_TANH, NULL)
test-encoder|encoder/*.c|h[i].at = !fused \!\! i == 0 ? 0 : n_q + (i - 1) * n_kv;|h[i].at = 0;
test-encoder|encoder/*.c|l.w, l.b, eps, b->err)|l.w, l.b, 1e-2f, b->err)
test-encoder|encoder/*.c|if (b->g->types) x = ggml_add|if (0) x = ggml_add
test-encoder|encoder/*.c|x = ggml_get_rows(b->ctx, x, g->rows);|x = rows_of(&b, x, 0, s->n_rows);
test-encoder|encoder/*.c|p->positions[n] = t;|p->positions[n] = n;
test-encoder|encoder/*.c|p->types[n]     = q->tokens ? q->tokens[t].segment :|p->types[n]     = q->tokens ? 0 :
test-encoder|encoder/*.c|return n <= exact_up_to(m, p)|return n < exact_up_to(m, p)
test-encoder-attention|encoder/*.c|n < 16384 ? 5.0f / 16|n <= 16384 ? 5.0f / 16
test-encoder-attention|encoder/*.c|return integers ? MRA_AUTO_EXACT_INT8 : MRA_AUTO_EXACT;|return MRA_AUTO_EXACT;
test-encoder-attention|encoder/*.c|p->attn.budget == MRA_AUTO_BUDGET;|true;
test-encoder|encoder/*.c|exact.scale     = own.scale;|exact.scale     = 0;
test-encoder|encoder/*.c|return attn->counts[0] >= n_blocks * n_blocks;|return attn->counts[0] >= n_blocks;
test-encoder|encoder/*.c|j->ctx->out + j->first_row[j->order[i]] * j->n_cols|j->ctx->out + j->first_row[i] * j->n_cols
test-encoder|encoder/*.c|j->pooling == MRA_POOLING_LAST ? first + n - 1 : first|j->pooling == MRA_POOLING_LAST ? first + n - 2 : first
test-encoder|encoder/*.c|p->row_to[p->shape.n_rows++] = to;|p->row_to[p->shape.n_rows] = p->shape.n_rows; p->shape.n_rows++;
test-encoder|encoder/*.c|if (st == MRA_OK) st = fetch(j, &p, err);|if (st == MRA_OK && a == 0) st = fetch(j, &p, err);
test-encoder|encoder/pass.c|p->row_to[p->shape.n_spans++] = to;|p->row_to[p->shape.n_spans] = p->shape.n_spans; p->shape.n_spans++;
test-encoder-api|encoder/pass.c|span[0] = pooling == MRA_POOLING_LAST ? first + n - 1 : first;|span[0] = first;
test-encoder|encoder/pass.c|j->pooling == MRA_POOLING_MEAN_SQRT ? MRA_SPAN_MEAN_SQRT : MRA_SPAN_MEAN|MRA_SPAN_MEAN
test-encoder|encoder/*.c|(float) (1/sqrt(s)) : 0;|(float) (1/s) : 0;
test-encoder|encoder/*.c|if (s->n > m->info.n_ctx)|if (0)
test-encoder|encoder/*.c|if (type < 0 \!\! type >= n_types)|if (0)
test-encoder|encoder/*.c|s->first >= 0 &&|
test-encoder|encoder/*.c|m->info.attn.scale = scale;|
test-encoder|encoder/*.c|MRA_PROBLEM_MULTI : problem[0] == 'r'|MRA_PROBLEM_MULTI : problem[0] == 'x'
test-model-errors|encoder/*.c|if ((int64_t) n_labels != m->info.n_class + m->info.n_tag) m->labels_id = -1;|
test-encoder|encoder/*.c|ctx->stats.part_ms[part] += now - ctx->part_start;|ctx->stats.part_ms[part] += now;
test-encoder|encoder/*.c|ctx->op_start = now;|
test-model-headers|encoder/*.c|if (ne == 0 \!\! ne > limit/total)|if (ne > limit/total)
test-model-headers|encoder/*.c|ne > limit/total|0
test-model-headers|encoder/*.c|if (ne0 % block) {|if (0) {
test-model-headers|encoder/*.c|if (names[i].len == 0 \!\! names[i].len > MAX_KEY|if (names[i].len > MAX_KEY
test-model-headers|encoder/*.c|if (offset != *end) {|if (0) {
test-model-headers|encoder/*.c|unpadded > c->size - start|0
test-model-headers|encoder/*.c|if (type != GGUF_TYPE_UINT32 \!\! is_array)|if (0)
test-model-headers|encoder/*.c|compare_names(&names[i - 1], &names[i]) == 0|0
test-model-headers|encoder/*.c|names[i].len >= GGML_MAX_NAME|names[i].len > GGML_MAX_NAME
test-model-headers|encoder/*.c|if (n > left(c)/size) {|if (0) {
test-model-errors|encoder/*.c|if (x < lo \!\! x > hi) {|if (x < lo) {
test-model-errors|encoder/*.c|if (t->ne[0] != ne0 \!\!|if (
test-model-errors|encoder/*.c|vector ? t->type != GGML_TYPE_F32 :|vector ? false :
test-model-errors|encoder/*.c|: !is_matrix_type(t->type))|: false)
test-heads|encoder/*.c|if (mean) j->later = MRA_HEAD_CLASS;|if (0) j->later = MRA_HEAD_CLASS;
test-heads|encoder/*.c|if (m->mlm_dense.w) x = mra_graph_norm(b, m->mlm_norm, mra_graph_linear(b, m->mlm_dense, x, m->mlm_act, NULL));|
test-families|encoder/*.c|.interleaved = true|.interleaved = false
test-families|encoder/graph.c|if (!(own.attn.scale > 0)) own.attn.scale|if (0) own.attn.scale
test-families|encoder/graph-attention.c|const int64_t width = h[0].d * h[0].n_head;|const int64_t width = b->m->info.n_embd;
test-families|encoder/graph-attention.c|head_size(b), n_head, n, d * (int64_t) sizeof(float), o->nb[1], 0);|head_size(b), n_head, n, mra_graph_head_size(b) * (int64_t) sizeof(float), o->nb[1], 0);
test-families|encoder/*.c|.max_bias = 8|.max_bias = 4
test-families|encoder/attention.c|m->arch.position == MRA_POSITION_ALIBI \!\! !on_cpu(m)|!on_cpu(m)
test-families|encoder/*.c|i % pattern != 0|i % pattern == 0
test-families|encoder/*.c|(int) window / 2|(int) window
test-families|encoder/*.c|mra_layer_is_global(l) ? a->rope_base : a->rope_base_local, a->rope_scale|a->rope_base, a->rope_scale
test-families|encoder/*.c|a->rope_scale = 1 / factor;|a->rope_scale = 1;
test-families|encoder/*.c|(int) (h[0].n_head + h[1].n_head)|(int) h[0].n_head
test-families|encoder/*.c|w[0] = l->gate.w ? l->gate : l->up; w[1] = l->up;|w[0] = l->up; w[1] = l->gate.w ? l->gate : l->up;
test-families|encoder/*.c|return l->gate.w ? 2 : 1;|return 1;
test-encoder|encoder/*.c|ffn(b, l, y, y)|ffn(b, l, y, NULL)
test-families|encoder/*.c|return m->out_norm.w ? mra_graph_end_part|return m->out_norm.w && 0 ? mra_graph_end_part
test-families|encoder/*.c|list ? ((const int8_t *) list)[i] != 0|list ? false
test-model-errors|encoder/*.c|!t->extra && strncmp(|0 && strncmp(
test-families|encoder/*.c|v->pre = pres[i].pre;|
test-families|encoder/*.c|its splits are not known; convert with convert_hf.py", name)|", name), MRA_OK
test-model-errors|encoder/*.c|if (m->position_embd->ne[1] < i->n_ctx)|if (0)
test-model-errors|encoder/*.c|if (n > m->info.n_vocab)|if (0)
test-encoder-text|encoder/*.c|n[n[1] > n[0] \!\! n[0] == 0]--|n[n[0] == 0]--
test-encoder-text|encoder/*.c|if (t < 0 \!\! seen[t]++ < n[t])|if (t < 0 \!\! seen[t]++ > n[t])
test-encoder-text|encoder/*.c|v->lowercase = v->strip_accents = uncased;|
test-encoder-text|encoder/*.c|KEY("seperator_token_id")|KEY("padding_token_id")
test-encoder-text|encoder/*.c|v->scores = scores;|v->scores = NULL;
test-model-errors|encoder/*.c|v->charsmap = st == MRA_OK ? map : NULL;|v->n_charsmap = 0;
test-quantize|encoder/*.c|strcmp(name, "token_types.weight") == 0|0
test-quantize|encoder/*.c|a.st_ino == b.st_ino|0
test-quantize|encoder/*.c|if (st != MRA_OK) unlink(w->tmp);|
test-quantize|encoder/*.c|(align - n % align) % align|0
test-quantize|encoder/*.c|ggml_quantize_chunk(k->to, rows, k->dst + (size_t) i*k->nb_dst,|ggml_quantize_chunk(k->to, rows, k->dst,
test-quantize|encoder/*.c|if (n % ggml_blck_size(type) == 0) return type;|if (n % 32 == 0) return type;
test-quantize|encoder/*.c|if (!is_plain(t->type)) {|if (0) {
test-encoder-text|encoder/*.c|if (id < 0) id = find_token(v, bert|if (id < -1) id = find_token(v, bert
test-encoder-device|encoder/*.c|ctx->companion = ggml_backend_mra_init(backend, &ctx->no_companion);|(void) backend;
test-encoder-device|encoder/*.c|for (int i = ctx->n_backends - 1; i >= 0; i--) ggml_backend_free|for (int i = 0; i < ctx->n_backends; i++) ggml_backend_free
test-encoder-device|encoder/*.c|if (!in_place) ggml_backend_tensor_set|if (0) ggml_backend_tensor_set
test-encoder-device|encoder/model.c|stay[i] = yes ? NULL : *of[i];|stay[i] = NULL;
test-encoder-device|encoder/model.c|if (stay[i] == m->mlm_out.w) *of[i] = ggml_dup_tensor|if (0) *of[i] = ggml_dup_tensor
test-encoder-device|encoder/model.c|if (*of[i] != stay[i]) ggml_backend_tensor_set|if (0) ggml_backend_tensor_set
test-encoder-device|encoder/pass.c|if (inputs[i]) ggml_backend_sched_set_tensor_backend|if (0) ggml_backend_sched_set_tensor_backend
test-encoder-device|encoder/pass.c|on_host(m->token_embd) ? NULL : g->ids|g->ids
test-encoder-device|encoder/pass.c|p->padded[at + t] = t < n ? first + t : first;|p->padded[at + t] = first;
test-encoder-device|encoder/pass.c|p->unpadded[first + t] = at + t;|p->unpadded[first + t] = first + t;
test-encoder-device|encoder/pass.c|n = p->lengths[i] = s->starts[i + 1] - first,|n = s->starts[i + 1] - first + 0 * (p->lengths[i] = s->max_len),
test-encoder-device|encoder/pass.c|&& ctx->params.n_error_rows == 0;|;
test-encoder-device|encoder/pass.c|st != MRA_ERR_MEMORY \!\! ctx->n_backends == 1|1
test-encoder-device|encoder/pass.c|ctx->rows + i * j->n_cols|ctx->rows + i * j->n_dims
test-encoder-device|encoder/pass.c|n > 1 && j->ctx->n_backends > 1|n > 1 && 0
test-encoder-device|encoder/context.c|const size_t n = all / 8 /|const size_t n = all /
test-encoder-device|encoder/encoder.c|if (pads && n * (b - a + 1) > most_tokens) break;|
test-encoder-device|encoder/graph-attention.c|s->max_len * x[c]->nb[1], h[c].at|s->max_len * x[c]->nb[1], 0 * h[c].at
test-int8   |cpu/int8-query.inc|sum * -KEY_BIAS|sum * (1 - KEY_BIAS)
test-int8   |cpu/int8-query.inc|<= limit) << i|<= limit * 1e30f) << i
test-int8   |cpu/int8-query.inc|v_set1(state[a->dv]) - (dot[0] + v_set1(same)) * v_set1(a->scale)|v_set1(state[a->dv])
test-int8   |cpu/int8-query.inc|state[c] / p->v_factor[c]|state[c] * p->mean[0]
test-int8   |cpu/int8-attn.inc|v_load(s->q_scale + (n0 + n) * VL), v_log2)|v_load(s->q_scale + (n0 + n) * VL), v_set1(0))
test-int8   |cpu/int8-attn.inc|v_store(t + j * H + i, v_set1(-INFINITY))|(void) 0
test-int8   |cpu/int8-attn.inc|v_load(s->o + c * H + n) * f);|v_load(s->o + c * H + n));
test-int8   |cpu/int8-attn.inc|* f * v_set1(p->v_factor[c + m])|* f
test-int8   |cpu/int8-attn.inc|(idx ? idx[j + i] : j + i) * DV|(idx ? idx[j] : j + i) * DV
test-int8   |cpu/int8-attn.inc|key[j] = p->key[idx[j]];|key[j] = p->key[idx[0]];
test-int8   |cpu/int8-attn.inc|idx[n_full * KEYS + j < n ? n_full * KEYS + j : n - 1]|idx[n - 1]
test-int8 matrix|cpu/int8-matrix.inc|sum[2 * i + 1][n] = v_second_column(|sum[2 * i + 1][n] = v_first_column(
test-int8 matrix|cpu/int8-matrix.inc|weights ? v_matrix_unsigned(|0 ? v_matrix_unsigned(
test-int8 matrix|cpu/int8-matrix.inc|b += b_step|b += 2 * V_DEEP
test-int8 matrix|cpu/int8-matrix.inc|k->k + (size_t) j * D, 2 * D|k->k + (size_t) j * D, D
test-int8 matrix|cpu/int8-matrix.inc|idx[j + i] * DV|idx[j] * DV
test-int8 matrix|cpu/int8-matrix.inc|8, 24, 9, 25|8, 24, 25, 9
test-int8 matrix|cpu/int8-pack.inc|V_MATRIX && !p->gather|V_MATRIX
test-int8 matrix|cpu/int8-query.inc|H + i + r) * V_DEEP|H + i) * V_DEEP
test-int8 matrix|cpu/lanes.h|u[1], 2, 6, 3, 7|u[1], 2, 3, 6, 7
test-int8-group|cpu/int8-group.inc|KEY_BIAS * (uint32_t) v_hsum_i(sum)|0
test-int8-group|cpu/int8-group.inc|s->same[i] = int8_dot_16(q, p->mean, D);|s->same[i] = 0;
test-int8-group|cpu/int8-group.inc|int8_refused(a, p, step + i, norm2 + i,|int8_refused(a, p, step, norm2,
test-int8-group|cpu/int8-group.inc|w * v_load(factor + c + n * VL)|w
test-int8-group|cpu/int8-group.inc|u[j] = 1 / p->key[j0 + j].v_inv|u[j] = 1
test-int8-group|cpu/int8-group.inc|weight[i + m < n ? i + m : n - 1]|weight[i]
test-int8-group|cpu/int8-group.inc|k_scale[j] = p->key[j0 + j].k_scale|k_scale[j] = p->key[j].k_scale
test-int8   |cpu/int8-pack.inc|(lanes * r + l) * WORD|(V_STEP * l + r) * WORD
test-int8   |cpu/int8-pack.inc|v_set1(most * 0x1p-12f)), g|v_set1(0)), g
test-int8   |cpu/int8-pack.inc|range.k_step = NAN|(void) 0
test-int8   |cpu/int8-rows.h|a <= b \!\! b != b ? b : a|a <= b ? b : a
test-int8   |cpu/int8.c|first += run;|
test-int8-window|cpu/int8-window.inc|(key <= last) & (key < v_set1_i(n_k))|(key <= last)
test-int8-window|cpu/int8-window.inc|vf max = v_set1(-1e30f);|vf max = v_load(s->block_max + n);
test-int8-window|cpu/int8-window.inc|j0 >= i0 + MRA_INT8_ROWS - 1 - window|j0 >= i0 - window
test-int8-window|cpu/int8-window.inc|i0 - first, window, D, DV|i0, window, D, DV
test-int8-window|cpu/int8.c|a->n_k = i + n + window|a->n_k = i + 16 + window
test-int8-window|ref/int8.c|if (b == -INFINITY) continue;|
test-layers |op-window-attn.c|&& p->max_bias == 0 &&|&&
test-layers |op-window-attn.c|sqrtf(dot(q, q, a->d) * k->radius2)|0
test-layers |op-window-attn.c|if (!isfinite(dot(v, v, a->dv)))|if (0)
test-layers |op-window-attn.c|(most + logf(0x1p25f / -expm1f(-slope)))|most
test-layers |op-window-attn.c|nearer(w->window, reach)|w->window
test-int8 tiles|cpu/amx-pack.inc|t / 2 * 32 + column / 4 * 8 + t % 2 * 4 + column % 4|t * 16 + column
test-int8 tiles|cpu/amx-pack.inc|!(largest < AMX_LARGE_VALUE)) range.k_norm2 = NAN;|0) range.k_norm2 = NAN;
test-int8 tiles|cpu/amx-pack.inc|- v_load(s->mean + c), b =|, b =
test-int8 tiles|cpu/amx-pack.inc|p->q_factor[c] = 1 / s.k_factor[c]|p->q_factor[c] = 1
test-int8 tiles|cpu/amx-pack.inc|v_by_fours(v_to_bf16(|(v_to_bf16(
test-int8 tiles|cpu/amx-query.inc|limit && bound < 1e6f) << i|limit * 1e30f) << i
test-int8 tiles|cpu/amx-query.inc|ceilf(bound - MRA_BF16_ABOVE)|0
test-int8 tiles|cpu/amx-query.inc|- lacking) *|) *
test-int8 tiles|cpu/amx-query.inc|state[c] / p->v_factor[c]|state[c]
test-int8 tiles|cpu/amx-query.inc|v_set1(state[a->dv + 1]) * f|v_set1(state[a->dv + 1])
test-int8 tiles|cpu/amx-attn.inc|amx_weight(r, x->s0, x->w0, 1, i + 4)|amx_weight(r, x->s0, x->w0, 1, i + 3)
test-int8 tiles|cpu/amx-attn.inc|amx_tail(x.s0, n_k - (nb - 1) * MRA_INT8_KEYS);|
test-int8 tiles|cpu/amx-attn.inc|    if (nb > 1) {|    if (nb > 2) {
test-int8 tiles|cpu/amx-attn.inc|r->sum[i] = v_dot_bf16(r->sum[i], x, r->ones);|r->sum[i] = v_dot_bf16(r->sum[i], x, x);
test-int8 tiles|cpu/amx-any.inc|amx_tail(w->s[0], n_k - j);|
test-int8 tiles|cpu/amx-any.inc|v + (NC + c) * AMX_TILE|v + c * AMX_TILE
test-int8 tiles|cpu/amx-any.inc|if (n < MRA_INT8_KEYS) memset|if (0) memset
test-int8 tiles|cpu/amx-any.inc|idx[j + 1] * DV|idx[j] * DV
test-int8 tiles|cpu/amx-any.inc|p->v_factor[0] / sum|1 / sum
test-int8 tiles|cpu/amx-list.inc|at < n_idx ? at : n_idx - 1|n_idx - 1
test-int8 tiles|cpu/amx-list.inc|if (b == nb && tail < MRA_INT8_KEYS) memset|if (0) memset
test-int8 tiles|cpu/amx-list.inc|sum[0][i] + sum[1][i]|sum[0][i]
test-int8 tiles|cpu/amx-list.inc|list_v + ((b - 1) & 1) * LIST_V|list_v + (b & 1) * LIST_V
test-int8 tiles|cpu/amx-list.inc|w->pairs[g * TILE_ROWS + i]|w->pairs[i]
test-int8-group tiles|cpu/amx-group.inc|v_store(s->same[i], v_set1(int8_dot_16(q, p->mean, ld)))|v_store(s->same[i], v_set1(0))
test-int8-group tiles|cpu/amx-group.inc|even && row[i] - row[i - 1] == row[1] - row[0]|even
test-int8-group tiles|cpu/amx-group.inc|v_load_words(v + (size_t) (j + 1) * DV + c)|v_load_words(v + (size_t) j * DV + c)
test-int8-group tiles|cpu/amx-group.inc|g > VL ? v_load(weight[i] + VL) * factor : v_set1(0)|v_set1(0)
test-int8-group tiles|cpu/amx-group.inc|v_load_words(s->q[c] + m * AMX_DEPTH)|v_load_words(s->q[c])
test-int8 tiles|ref/bf16.c|(x + exp2_of[x >> 2 & 63]) >> 1|x >> 1
test-attn tiles|cpu/amx-any.inc|mra_query_at(a, i0 + i) * a->ld_out|(size_t) (i0 + i) * a->ld_out
test-attn tiles|cpu/amx-query.inc|amx_row_sums(dot) + v_set1(same)|amx_row_sums(dot)
test-levels tiles|cpu/x86-levels.h|1 << 22 \! 1 << 24|1 << 22
test-levels tiles cpu:amx_tile|cpu/dispatch.c|ask_for_tiles() == 0; }|true; }
test-attn whole-int8|*.c *.h|if (a.int8) a.int8->pack(&a, &a.int8_pack, k0, k1);|if (a.int8 && k0 == 0) a.int8->pack(&a, &a.int8_pack, k0, k1);
test-attn whole-int8|*.c *.h|a->d, a->dv, a->n_k, bytes, !exact);|a->d, a->dv, a->n_k, bytes, false);
test-attn whole-int8|*.c *.h|l.per_head += mra_int8_pack_size((int) d, (int) dv, MRA_INT8_KEYS, p->u.attn.int8) + ALIGN;|
test-attn whole-int8|*.c *.h|const size_t b = integers + mra_columns_scratch|const size_t b = mra_columns_scratch
test-attn whole-int8|cpu/columns*.inc|exact_part(w, s, i, r, stop);|
test-attn whole-int8|cpu/columns*.inc|state[a->dv] = max * (1 / MRA_LOG2E);|state[a->dv] = max;
test-attn whole-int8|cpu/columns*.inc|if (!n \!\! !(max < INFINITY)) return all;|if (!(max < INFINITY)) return all;
test-golden whole-int8|*.c *.h|(exact && a->int8) mra_int8_attn_rows(mra_kernels_get(), a, &a->int8_pack, first, end, scratch);|(0) {}
test-attn whole-int8|*.c *.h|t.src[2] = sampled ? attn->src[0] : lengths;|t.src[2] = sampled ? k : lengths;
test-errors whole-int8|*.c *.h|p->type == MRA_ATTN_INT8 && p->frame == MRA_FRAME_SQUARE|0
test-encoder-attention whole-int8|encoder/*.c|(p->attention_type == MRA_ATTENTION_TYPE_AUTO && quantized)|p->attention_type == MRA_ATTENTION_TYPE_AUTO
test-encoder-attention whole-int8|encoder/*.c|if (!wanted \!\! frame == MRA_FRAME_SQUARE|if (!wanted
test-encoder-attention whole-int8|encoder/*.c|exact.type = type_of(m, p, exact.frame);|
test-encoder-attention whole-int8|encoder/*.c|mra_attention_approximate(m, p, 1).frame != MRA_FRAME_SQUARE|true
test-query-order|cpu/query-order.inc|x[i] == th.t && n_tie-- > 0|x[i] == th.t
test-query-order|cpu/query-order.inc|v_load(rows[i] + c) - a,|v_load(rows[i] + c),
test-query-order|cpu/query-order.inc|~ge & ((1u << VL) - 1)|~ge
test-query-order|cpu/query-order.inc|v_store(t->z + i, -v_load(t->z + i));|
test-query-order|cpu/query-order.inc|v_set1(-FLT_MAX)), v_set1(FLT_MAX))|v_set1(-INFINITY)), v_set1(FLT_MAX))
test-query-order|cpu/query-order.inc|ok ? t.C[(size_t) c * (t.D + 1)] : 0|ok ? t.C[c] : 0
test-query-order|cpu/query-order.inc|for (; c < D; c++) dst[c] = 0;|
test-query-order|cpu/key-bias.inc|add ? bias[j + r] + b[r] : b[r]|b[r]
test-query-order|cpu/key-bias.inc|w[c] = a->scale * a->scale * a|w[c] = a
test-query-order|cpu/key-bias.inc|p = v_fma(p, s, v_set1(2.0f / 5));|
test-query-order|cpu/key-bias.inc|if (a->sorted.key_bias[j] != a->sorted.key_bias[j])|if (0)
test-query-order|cpu/query-order.inc|topk_blocks(t->left, t->x, n_block, a->n_all)|topk_blocks(t->left, t->x, n_block, 1)
test-query-order|ref/query-order.c|a->sorted.all_keys[t.spare[i]] = 1;|a->sorted.all_keys[i] = 1;
test-attn   |cpu/int8-query.inc|dot[0] + v_set1(same)|dot[0]
test-attn   |cpu/int8-rows.h|v_load(mean + c) - v_load(k_mean + c)|v_load(mean + c)
test-attn   |cpu/int8-attn.inc|mra_query_at(a, i0 + i + m)|(size_t) (i0 + i + m)
test-ops    |op-query-order.c|a.sorted.order[i] = -1|(void) 0
test-attn   |op-query-order.c|at * q->ne[1] + first|at * q->ne[1]
test-attn   |op-query-order.c|/ MRA_QUERY_BLOCK + s,|/ MRA_QUERY_BLOCK,
test-attn   |plan.h|- mra_sorted_order_work(n_k, n_k) - a)|- a)
test-attn   |plan.h|mra_div_up(n_q, MRA_QUERY_BLOCK) / MRA_SORTED_ALL|mra_div_up(n_q, MRA_QUERY_BLOCK) / MRA_SORTED_KEYS / 2
test-memory|encoder/*.c|if (mra_threads_probe(p.n_threads - 1, err) != MRA_OK) goto fail;|
test-memory|encoder/*.c|if (need <= most) return MRA_OK;|return MRA_OK;
test-memory|encoder/*.c|O_CLOEXEC \! O_NONBLOCK|O_CLOEXEC
test-memory|encoder/*.c|if ((size_t) st.st_size == f->size && st.st_mtim.tv_sec|if (1 \!\! st.st_mtim.tv_sec
test-memory|encoder/*.c|usage > reclaimable ? usage - reclaimable : 0|usage
test-threads|encoder/*.c|ctx->shares ? mra_threads_share(ctx->params.n_threads) : |
test-encoder-api|encoder/*.c|if (!model) { mra_fail(err, MRA_ERR_ARG, "no model");|if (0) {
test-encoder-api|encoder/*.c|return ctx ? ctx->stats : (struct mra_stats) { 0 };|return ctx->stats;
test-errors |*.c *.h|make_plain(err->msg);|
test-errors |*.c *.h|s[0] = s[1] = '?'|s[1] = '?'
LIST
