#!/bin/sh
# What the compiler says of the CUDA kernels, for the architectures that people have, or every one of the toolkit from sm_75 on: registers and shared memory within
# the budget below, no spills, tensor-core and asynchronous copy instructions where they belong, and the occupancy that follows. No GPU needed.
# usage: cuda-gates.sh SOURCE BUILD [all]     exit code 77: there is no nvcc
set -u
src=$(cd "$1" && pwd)/ggml-mra/src/cuda; work=$2/cuda-gates; mkdir -p "$work"
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
"$nvcc" --version >/dev/null 2>&1 || { echo "skipped: there is no nvcc (CUDACXX, PATH, /usr/local/cuda)"; exit 77; }

# kernel, or kernel and architecture | threads | dynamic shared memory, at most | registers, at most | machine code must have
cat >"$work/budget" <<'TABLE'
pool_kernel<.*>           | 128  | 0     | 80  |
span_pool_kernel          | 256  | 0     | 64  |
score_kernel<.*>          | 128  | 0     | 128 | LDGSTS
topk_kernel               | 640  | 20480 | 96  |
topk_start                | 256  | 0     | 64  |
topk_bins                 | 256  | 0     | 64  |
topk_count                | 256  | 0     | 64  |
topk_offsets              | 32   | 0     | 64  |
topk_take                 | 256  | 0     | 64  |
coarse_kernel             | 128  | 0     | 80  |
pack_copy<.*>             | 256  | 0     | 64  |
pack_stat<.*>             | 128  | 0     | 80  |
order_start               | 256  | 0     | 64  |
order_bias                | 256  | 0     | 64  |
order_finish              | 256  | 0     | 64  |
order_covariance          | 256  | 0     | 64  |
order_sums                | 256  | 0     | 128 |
order_split               | 256  | 53440 | 80  |
norm_rows                 | 128  | 0     | 64  |
glu_rows                  | 128  | 0     | 64  |
rope_table_rows           | 128  | 0     | 64  |
rope_rows                 | 128  | 0     | 64  |
attend_near<32>           | 128  | 10240 | 128 | HMMA LDGSTS
attend_near<64>           | 128  | 18432 | 168 | HMMA LDGSTS
attend_near<80>           | 128  | 22528 | 168 | HMMA LDGSTS
attend_near<96>           | 128  | 26624 | 200 | HMMA LDGSTS
attend_near<128>          | 128  | 34816 | 255 | HMMA LDGSTS
attend_near<256>          | 64   | 50688 | 255 | HMMA LDGSTS
attend<32>                | 128  | 10240 | 128 | HMMA LDGSTS
attend<64>                | 128  | 18432 | 168 | HMMA LDGSTS
attend<80>                | 128  | 22528 | 168 | HMMA LDGSTS
attend<96>                | 128  | 26624 | 200 | HMMA LDGSTS
attend<128>               | 128  | 34816 | 255 | HMMA LDGSTS
attend<256>               | 64   | 50688 | 255 | HMMA LDGSTS
columns<32, .*> sm_75     | 256  | 65536 | 255 | HMMA
columns<32, .*>           | 256  | 101376 | 255 | HMMA LDGSTS
columns<64, .*> sm_75     | 128  | 65536 | 255 | HMMA
columns<64, .*>           | 256  | 101376 | 255 | HMMA LDGSTS
columns<80, .*>           | 64   | 50176 | 255 | HMMA LDGSTS
columns<96, .*>           | 64   | 50176 | 255 | HMMA LDGSTS
columns<128, .*>          | 64   | 50176 | 255 | HMMA LDGSTS
columns<256, false>       | 32   | 59904 | 255 | HMMA LDGSTS
TABLE
# per multiprocessor: threads, blocks, shared memory in KiB, of which a block's own takes 1 from sm_80 on (CUDA C++ Programming Guide, technical
# specifications per compute capability); an architecture that is not here gets no occupancy
limits="75:1024:16:64 80:2048:32:164 86:1536:16:100 87:1536:16:164 89:1536:24:100 90:2048:32:228 100:2048:32:228 103:2048:32:228 120:1536:24:100 121:1536:24:100"

# Two passes of the front end, as the source knows two cases: below sm_80, and from it on.
new=
for a in $("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n); do
    [ "$a" -lt 75 ] && continue
    case "${3:-75 80 86 89 90 100 120}" in all | *$a*) ;; *) continue ;; esac # of the others each has a twin among these
    if [ "$a" -lt 80 ]; then old=$a; else new="$new${new:+,}sm_$a"; fi
done
compile="$nvcc -std=c++17 -O3 -Xptxas -v -Werror all-warnings ${old:+-gencode arch=compute_$old,code=sm_$old} -gencode arch=compute_80,code=[$new]"
echo "nvcc for ${old:+sm_$old,}$new"
ls "$src"/*.cu | xargs -P 2 -I{} sh -c "n=\$(basename {} .cu); $compile -c {} -o '$work'/\$n.o >'$work'/\$n.log 2>&1 || touch '$work'/failed"
[ -e "$work/failed" ] && { rm "$work/failed"; grep -h -i 'error\|warning' "$work"/*.log; echo "nvcc failed"; exit 1; }

# kernel arch registers static-shared spills
cat "$work"/*.log | awk '
    /Compiling entry function/ { split($0, q, "\047"); name = q[2]; arch = q[4]; sub("sm_", "", arch) }
    /spill stores/ { spill = $5 + $9 }
    /Used [0-9]+ registers/ { shared = 0; for (i = 1; i < NF; i++) { if ($(i+1) == "registers,") regs = $i; if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
        print name, arch, regs, shared, spill }' | sort >"$work/figures"

# kernel arch tensor-core-instructions asynchronous-copies; the toolkit may lack the disassembler, PyPI has it
find_tools() { PATH="$(dirname "$nvcc"):$work/tools/nvidia/cu13/bin:$work/tools/nvidia/cuda_cuobjdump/bin:$PATH"; command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null; }
find_tools || { python3 -m pip install --quiet --disable-pip-version-check --require-hashes --target "$work/tools" -r "$(dirname "$0")/cuda-tools.txt" >"$work/pip.log" 2>&1; find_tools; } && sass=1 || {
    sass=0; echo "machine code is not looked at: there is no cuobjdump, and pip did not get it"; }
: >"$work/code"
[ $sass = 1 ] && ls "$work"/*.o | xargs -P 2 -I{} sh -c "PATH='$PATH' cuobjdump -sass {} >{}.sass" && cat "$work"/*.sass | awk '
    /^arch = sm_/ { arch = $3; sub("sm_", "", arch) }
    /Function : /  { name = $3; seen[name " " arch] = 1 }
    / [A-Z.]*HMMA/   { hmma[name " " arch]++ }
    / [A-Z.]*LDGSTS/ { ldg[name " " arch]++ }
    END { for (k in seen) print k, hmma[k] + 0, ldg[k] + 0 }' | sort >"$work/code"
rm -f "$work"/*.sass

awk -v limits="$limits" -v sass=$sass -v demangle=c++filt '
    function trim(s) { gsub(/^ +| +$/, "", s); return s }
    function floor_to(x, m) { return x - x % m }
    function ceil_to(x, m) { return x % m ? x + m - x % m : x }
    FILENAME ~ /budget$/ { n = split($0, f, "|"); nb++; pat[nb] = "^" trim(f[1]) "$"; threads[nb] = f[2] + 0; dyn[nb] = f[3] + 0; most[nb] = f[4] + 0; needs[nb] = f[5]; next }
    FILENAME ~ /code$/   { hmma[$1 " " $2] = $3; ldg[$1 " " $2] = $4; next }
    FNR == 1 { m = split(limits, l, " "); for (i = 1; i <= m; i++) { split(l[i], v, ":"); max_threads[v[1]] = v[2]; max_blocks[v[1]] = v[3]; max_shared[v[1]] = v[4]*1024 }
        printf "%-28s %-7s %9s %8s %8s %6s %10s %9s %6s %7s\n", "kernel", "arch", "registers", "static", "dynamic", "spills", "blocks/SM", "occupancy", "HMMA", "LDGSTS" }
    {
        if (!($1 in short)) {
            cmd = demangle " " $1; cmd | getline s; close(cmd)
            sub(/^void /, "", s); sub(/\(.*$/, "", s); gsub(/\((int|bool)\)/, "", s); short[$1] = s
        }
        name = short[$1]; a = $2; key = $1 " " a; row = 0; bad = ""
        for (i = 1; i <= nb && !row; i++) if (name ~ pat[i] || (name " sm_" a) ~ pat[i]) row = i
        if (!row) { printf "%s: no line in the budget\n", name; failed++; next }
        blocks = "-"; occ = "-"
        if (a in max_threads) {
            warps = threads[row]/32
            shared = ceil_to($4 + dyn[row], a < 80 ? 256 : 128) + (a < 80 ? 0 : 1024)
            by_regs = int(floor_to(int(65536/ceil_to($3*32, 256)), 4)/warps)
            by_shared = int(max_shared[a]/shared)
            blocks = int(max_threads[a]/threads[row])
            if (by_regs < blocks) blocks = by_regs
            if (by_shared < blocks) blocks = by_shared
            if (max_blocks[a] < blocks) blocks = max_blocks[a]
            occ = sprintf("%d %%", 100*blocks*threads[row]/max_threads[a])
            if (blocks < 1) bad = bad " does-not-fit"
        }
        if ($5 > 0) bad = bad " spills"
        if ($3 > most[row]) bad = bad " registers>" most[row]
        if ($4 > 49152) bad = bad " static-shared-memory"
        if (sass && needs[row] ~ /HMMA/ && !hmma[key]) bad = bad " no-HMMA"
        if (sass && needs[row] ~ /LDGSTS/ && a >= 80 && !ldg[key]) bad = bad " no-LDGSTS"
        printf "%-28s sm_%-4s %9d %8d %8d %6d %10s %9s %6s %7s%s\n", name, a, $3, $4, dyn[row], $5, blocks, occ, sass ? hmma[key] + 0 : "?", sass ? ldg[key] + 0 : "?", bad ? "  FAIL" bad : ""
        total++; if (bad) failed++
    }
    END { printf "cuda-gates: %d kernels x architectures, %d failed\n", total, failed + 0; exit failed || !total ? 1 : 0 }
' "$work/budget" "$work/code" "$work/figures"
