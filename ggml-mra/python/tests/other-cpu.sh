#!/bin/sh
# The wheel that run.sh compiled, on an emulated CPU of 2008, without AVX: an instruction that CPU lacks ends the process.
# usage: other-cpu.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); python=$build/python-package/bin/python
[ "$(uname -m)" = x86_64 ] || { echo "skipped: x86-64 only"; exit 0; }
real=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
here_says=$("$python" "$here/say.py" "$build"); there_says=$(qemu-x86_64 -cpu Nehalem -E PYTHONPATH="$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$real" "$here/say.py" "$build")
echo "$here_says"; echo "$there_says"
case $there_says in "kernels base, "*" good") ;; *) echo "the wheel does not run on another CPU"; exit 1 ;; esac
