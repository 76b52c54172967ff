#!/bin/bash
# run.sh BUILD SECONDS [TARGET...]: each fuzz target in turn, SECONDS in all. New inputs are kept in BUILD/fuzz/TARGET, what broke a promise in
# BUILD/fuzz/findings; a line per target is printed and added to BUILD/fuzz/log.tsv:
#   target, seconds, executions, edges reached, inputs kept, findings
set -u
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); seconds=$2; shift 2
targets=${*:-gguf attn ops quantize bpe wordpiece unigram text input json npy convert}
share=$((seconds / $(echo $targets | wc -w)))
[ $share -gt 0 ] || { echo "run.sh: $seconds seconds are too few for: $targets" >&2; exit 2; }
found=$build/fuzz/findings; mkdir -p "$found"
python=$build/venv/bin/python; [ -x "$python" ] || python=python3 # with convert/requirements.txt
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1
bad=0
for target in $targets; do
    log=$build/fuzz/$target.log
    if [ "$target" = convert ]; then
        "$python" -B "$here/fuzz_convert.py" --seconds $share --findings "$found" >"$log" 2>&1; rc=$?
        read -r runs edges kept <<<"$(sed -n 's/^convert: \([0-9]*\) runs, \([0-9]*\) lines reached, \([0-9]*\) converted.*/\1 \2 \3/p' "$log")"
    else
        mkdir -p "$build/fuzz/$target"
        "$build/bin/fuzz-$target" -max_total_time=$share -timeout=25 -rss_limit_mb=3000 -max_len=20000 -print_final_stats=1 \
            -artifact_prefix="$found/$target-" "$build/fuzz/$target" "$here/corpus/$target" >"$log" 2>&1; rc=$?
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log"); edges=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -c6-)
        kept=$(ls "$build/fuzz/$target" | wc -l)
    fi
    [ $rc = 0 ] || { bad=1; grep -m 3 -E 'ERROR: |runtime error|SUMMARY|Traceback|Error' "$log"; echo "    see $log and $found"; }
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$target" $share "${runs:-0}" "${edges:-0}" "${kept:-0}" $((rc != 0)) | tee -a "$build/fuzz/log.tsv"
done
exit $bad
