#!/bin/sh
# Beside sentence-transformers on MiniLM, in BUILD/python-reference. usage: test-python-reference.sh BUILD
# Fetches the model as make demo does. PYTHON: one that has sentence-transformers; HF, GGUF: another folder and its f16 file.
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); root=$here/../../..; python=${PYTHON:-}
if [ -z "$python" ]; then
    venv=$build/python-reference; python=$venv/bin/python
    [ -x "$python" ] || python3 -m venv "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements-reference.txt"
fi
hf=${HF:-$build/models/minilm}; gguf=${GGUF:-$build/python-reference/minilm-f16.gguf}
[ -d "$hf" ] || "$python" "$root/convert/fetch_minilm.py" "$hf"
[ -f "$gguf" ] || "$python" "$root/convert/convert_hf.py" "$hf" -o "$gguf" --type f16
PYTHONPATH=$here/.. MRA_PYTHON_LIBRARY=$build/ggml-mra/python/libmra-python.so HF_HUB_OFFLINE=1 exec "$python" -B "$here/test_reference.py" "$hf" "$gguf"
