#!/bin/sh
# Configuring without network: ggml's source from a prepared folder (MRA_OFFLINE), whose hash is checked; a folder without it is an error that says so.
# usage: test-offline.sh SOURCE BUILD WORK      BUILD has fetched ggml's source
set -u
source=$1 sdist=$2/_deps/sdist work=$3
ls "$sdist"/*.tar.gz >/dev/null 2>&1 || { echo "skipped: this build has not fetched ggml's source"; exit 77; }
rm -rf "$work"; mkdir -p "$work/empty" "$work/wrong"
configure() { # FOLDER: into $work/build, with an index that is not there
    rm -rf "$work/build"
    MRA_OFFLINE=$1 PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0 cmake -S "$source" -B "$work/build" -DGGML_MRA_FIND_GGML=OFF -DGGML_MRA_BUILD_TESTS=OFF -DGGML_MRA_BUILD_EXAMPLES=OFF \
        >"$work/log" 2>&1
}
fail() { echo "FAILED: $1"; cat "$work/log"; exit 1; }
configure "$work/empty" && fail "an empty folder is fine"
grep -q "MRA_OFFLINE" "$work/log" || fail "an empty folder: no word about it"
for file in "$sdist"/*.tar.gz; do { cat "$file"; echo x; } >"$work/wrong/${file##*/}"; done
configure "$work/wrong" && fail "a file with another hash is fine"
tr -s '\n ' '  ' <"$work/log" | grep -q "has SHA-256" || fail "a file with another hash: no word about it"
configure "$sdist" || fail "a prepared folder"
[ -f "$work"/build/_deps/ggml_python-*/vendor/ggml/CMakeLists.txt ] || fail "no source"
echo "offline: passed"
