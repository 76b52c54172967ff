#!/bin/bash
# soak.sh BUILD N: N documents of 1 to 120 words through one mra-embed, from a pipe; memory and descriptors, read from /proc while it runs, must stay flat:
# the last quarter's largest may be 2 % and 1 MB above the second quarter's, descriptors not one.
set -u
build=$1 n=$2; golden=$(cd "$(dirname "$0")" && pwd)/golden
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
awk -v n="$n" 'BEGIN { srand(1); for (i = 0; i < n; i++) { printf "{\"id\": %d, \"text\": \"", i; m = 1 + int(120 * rand())
    for (k = 0; k < m; k++) { for (c = 2 + int(6 * rand()); c > 0; c--) printf "%c", 97 + int(26 * rand()); printf " " } print "\"}" } }' >"$work/in.jsonl"
cat "$work/in.jsonl" | "$build/bin/mra-embed" -t 1 -m "$golden/models/bert.gguf" --truncate right --input jsonl -f - -o "$work/out.jsonl" & # a pipe: nothing is known of its end
pid=$(pgrep -n -x mra-embed -P $$)
while kill -0 "$pid" 2>/dev/null; do
    kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status" 2>/dev/null); fds=$(ls "/proc/$pid/fd" 2>/dev/null | wc -l)
    [ -n "$kb" ] && [ "$fds" -gt 0 ] && echo "$(wc -l <"$work/out.jsonl") $kb $fds" >>"$work/samples"
    sleep 0.2
done
wait %1; rc=$?
lines=$(wc -l <"$work/out.jsonl")
awk -v n="$n" '{ q = int(4 * $1 / n); if (q > 3) q = 3; if ($2 > kb[q]) kb[q] = $2; if ($3 > fd[q]) fd[q] = $3; count[q]++ }
    END { printf "samples %d %d %d %d, kB at most %d %d %d %d, descriptors %d %d %d %d by quarter\n", count[0], count[1], count[2], count[3], kb[0], kb[1], kb[2], kb[3], fd[0], fd[1], fd[2], fd[3]
          exit !(count[1] > 2 && count[3] > 2 && kb[3] <= 1.02 * kb[1] + 1000 && fd[3] <= fd[1]) }' "$work/samples"; flat=$?
echo "soak: $lines of $n documents, exit code $rc, $([ $flat = 0 ] && echo flat || echo NOT FLAT)"
[ "$lines" = "$n" ] && [ $rc = 0 ] && [ $flat = 0 ]
