#!/bin/sh
# Clients that people have, against mra-server: installs them into BUILD/clients (some hundred MB), then runs test_clients.py. Python 3.11 or newer.
# usage: run.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); venv=$build/clients
"$here/../../.ci/pip-install" "$venv" "$here/requirements.txt"
PYTHONPATH="$here/.." exec "$venv/bin/python" -B "$here/test_clients.py" "$build/bin"
