# What test-programs.sh and test-faults.sh have in common; to be sourced with PART BIN GOLDEN WORK CHECK as arguments.
set -u
part=$1; bin=$2; golden=$3; work=$4; check=$5
models=$golden/models
[ "$part" = minilm ] || rm -rf "$work"
mkdir -p "$work"; cd "$work" || exit 1
n=0; bad=0

# run WANTED_CODE COMMAND...: output in ./out, messages in ./err
run() {
    want=$1; shift
    "$@" >out 2>err </dev/null; rc=$?
    expect "exit code $rc, not $want: $*" [ $rc = "$want" ]
}
# expect WHAT_IS_WRONG COMMAND...: COMMAND must succeed
expect() {
    what=$1; shift; n=$((n + 1))
    "$@" >check.log 2>&1 || { bad=$((bad + 1)); echo "FAILED: $what"; cat check.log; [ -s err ] && sed 's/^/  stderr: /' err | head -5; }
}
# says FILE PATTERN: a line of FILE matches
says() { expect "no '$2' in $1" grep -q -e "$2" "$1"; }
silent() { expect "$1 is not empty" [ ! -s "$1" ]; }
lines() { expect "$1 has $(wc -l <"$1") lines, not $2" [ "$(wc -l <"$1")" = "$2" ]; }
words() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "line %d of %d%s\n", i, n, i % 7 ? "" : " is a bit longer than the others are" }'; }
small_files() { (ulimit -f 1000 -t 5; "$@"); } # for what must not write without end
# one thread: ggml's threads wait for each other, which takes long where other tests run
embed_with() { "$bin/mra-embed" -t 1 -m "$@"; }
embed()      { "$bin/mra-embed" -t 1 -m "$models/bert.gguf" "$@"; }
classify()   { "$bin/mra-classify" -t 1 "$@"; }
fill_mask()  { "$bin/mra-fill-mask" -t 1 "$@"; }
rerank()     { "$bin/mra-rerank" -t 1 "$@"; }
tokenize()   { "$bin/mra-tokenize" "$@"; }

