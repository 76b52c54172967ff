#!/bin/sh
# The adapters of README.md with the real packages, in BUILD/python-adapters. usage: test-python-adapters.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); venv=$build/python-adapters
"$here/../../../.ci/pip-install" "$venv" "$here/requirements-adapters.txt"
cd /
PYTHONPATH=$here/.. MRA_PYTHON_LIBRARY=$build/ggml-mra/python/libmra-python.so ANONYMIZED_TELEMETRY=False exec "$venv/bin/python" -B "$here/test_adapters.py"
