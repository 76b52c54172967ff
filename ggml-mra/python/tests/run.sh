#!/bin/sh
# Makes the wheel, installs it into BUILD/python-package and runs the tests on it.
# usage: run.sh BUILD PYTHON [LIBRARY]      LIBRARY: the build's own libmra-python.so; without it all is compiled, for any machine
# GGML_DIR: ggml's source, so that nothing is fetched but, the first time, requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); python=$2; library=${3:-}
venv=$build/python-package; wheels=$venv/wheels${library:+-quick}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$here/../../../.ci/pip-install" "$venv" "$here/requirements.txt"
export CMAKE_BUILD_PARALLEL_LEVEL="${JOBS:-2}"
rm -rf "$wheels"
"$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -w "$wheels" \
    -C "build-dir=$build/python-package/cmake${library:+-quick}" -C "cmake.define.GGML_MRA_GGML_DIR=${GGML_DIR:-}" \
    -C "cmake.define.GGML_MRA_PYTHON_LIBRARY=$library" "$here/.."
case $(ls "$wheels") in ggml_mra-*-py3-none-*.whl) ;; *) echo "not one wheel for every Python 3: $(ls "$wheels")"; exit 1 ;; esac
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheels"/*.whl
cd / # not the source folder
exec "$venv/bin/python" -B "$here/test_package.py" "$build/bin"
