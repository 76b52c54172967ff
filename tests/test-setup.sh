#!/usr/bin/env bash
# What a user meets before anything is built: .ci/setup on machines where packages are missing, .ci/step, convert_hf.py without its packages.
# usage: test-setup.sh SOURCE WORK
set -u
source=$1 work=$2
rm -rf "$work"; mkdir -p "$work/bin"
checks=0 failed=0
check() { # WHAT COMMAND...
    local what=$1; shift; checks=$((checks + 1))
    "$@" || { echo "FAILED: $what"; sed 's/^/    /' "$work/out"; failed=$((failed + 1)); }
}
says()     { grep -qF -- "$1" "$work/out"; }
says_not() { ! says "$1"; }
rc_is()    { [ "$rc" = "$1" ]; }

# a machine with a shell and little else: PATH is $work/bin alone. apt-get only writes down what it is asked for.
for name in sh sed uname ls; do ln -s "$(command -v $name)" "$work/bin/$name"; done
cat > "$work/bin/apt-get" <<EOF
#!/bin/sh
echo "\$@" >> "$work/apt"
[ ! -e "$work/apt-fails" ]
EOF
chmod +x "$work/bin/apt-get"
machine() { # UID [ARG...]: runs setup there as that user
    printf '#!/bin/sh\necho %s\n' "$1" > "$work/bin/id"; shift
    chmod +x "$work/bin/id"
    : > "$work/apt"
    rc=0; env -i PATH="$work/bin" sh "$source/.ci/setup" "$@" > "$work/out" 2>&1 || rc=$?
}
have() { printf '#!/bin/sh\nexit 0\n' > "$work/bin/$1"; chmod +x "$work/bin/$1"; }

machine 1000
check "not root: fails"                       rc_is 1
check "not root: the command to run"          says "sudo apt-get install -y build-essential cmake python3 python3-pip python3-venv pkg-config libutf8proc-dev libcjson-dev zlib1g-dev libzstd-dev libmicrohttpd-dev"
check "not root: installs nothing"            test ! -s "$work/apt"
machine 0
check "root: installs"                        rc_is 0
check "root: what is missing, all of it"      grep -q "^install .*build-essential.*libcjson-dev" "$work/apt"
touch "$work/apt-fails"; machine 0; rm "$work/apt-fails"
check "root, apt-get fails: fails"            rc_is 1
check "root, apt-get fails: says so"          says "apt-get could not install"
check "root, apt-get fails: tried new lists"  grep -q "^update" "$work/apt"
for name in cc c++ make cmake python3 pkg-config; do have $name; done
machine 1000
check "nothing missing: fine"                 rc_is 0
check "nothing missing: no word"              test ! -s "$work/out"
machine 1000 test
check "not root, tests: optional, so fine"    rc_is 0
check "not root, tests: names clang-format"   says "clang-format-14"
check "not root, tests: says what happens"    says "some tests will be skipped"
machine 0 test
check "root, tests: installs clang-format"    grep -q "clang-format-14" "$work/apt"
machine 1000 fuzz
if ! ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1; then check "fuzz: names libFuzzer" says "libclang-rt-14-dev"; fi
check "not root, fuzz: needed, so fails"      rc_is 1
check "not root, fuzz: names clang"           says "clang-14"
rm "$work/bin/apt-get"; rm "$work/bin/cmake"; machine 0
check "root without apt-get: fails"           rc_is 1
check "root without apt-get: says what"       says "packages are missing; run:  sudo apt-get install -y cmake"

step() { rc=0; env -u V "$source/.ci/step" "$@" > "$work/out" 2>&1 < /dev/null || rc=$?; }
step "doing it" "$work/log" sh -c 'echo noise; echo noise >&2'
check "step: passes"                          rc_is 0
check "step: says what"                       says "doing it: done in"
check "step: keeps the noise"                 says_not noise
check "step: in the log"                      grep -q noise "$work/log"
step "doing it" "$work/log" sh -c 'echo "x.c:1:2: error: bad"; for i in $(seq 99); do echo line; done; echo last; exit 3'
check "step: the exit code"                   rc_is 3
check "step: the error"                       says "x.c:1:2: error: bad"
check "step: the log's end"                   says last
check "step: where the log is"                says "$work/log"
step "doing it" "$work/log" sh -c 'echo "/x/_deps/ggml-mra/a.c:1:2: warning: theirs"; echo "/x/ggml-mra/src/a.c:1:2: warning: ours"'
check "step: our warnings"                    says "warning: ours"
check "step: not others'"                     says_not "warning: theirs"
rc=0; V=1 "$source/.ci/step" "doing it" "$work/log" sh -c 'echo noise; exit 4' > "$work/out" 2>&1 || rc=$?
check "step, V=1: all output"                 says noise
check "step, V=1: the exit code"              rc_is 4

if command -v python3 > /dev/null; then
    # a Python that finds no packages: -S leaves their folders out
    rc=0; python3 -S -B "$source/convert/convert_hf.py" "$work" -o "$work/x.gguf" > "$work/out" 2>&1 || rc=$?
    check "convert_hf.py without packages: fails"       rc_is 1
    check "convert_hf.py without packages: the command" says "pip install -r"
    check "convert_hf.py without packages: one line"    test "$(wc -l < "$work/out")" = 1
fi
echo "setup: $checks checks, $failed failed"
[ $failed = 0 ]
