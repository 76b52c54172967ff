#!/bin/sh
# Clients that people have, against mra-server: installs them into BUILD/clients (some hundred MB), then runs test_clients.py.
# usage: run.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); venv=$build/clients
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
PYTHONPATH="$here/.." exec "$venv/bin/python" -B "$here/test_clients.py" "$build/bin"
