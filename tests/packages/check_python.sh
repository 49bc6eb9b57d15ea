#!/usr/bin/env bash
# The Python package with the libraries of this build: its tests, which call all of its public functions, programs by the
# habits of others (tests/habits), its types, and that its declarations are those of the headers. Skipped where the
# packages for that are not there.
# usage: check_python.sh SHARED_LIBRARY SOURCE_DIR [GRAMMAR_LIBRARY]
set -u
export QINFER_LIBRARY=$1 PYTHONPATH=$2/bindings/python/src PYTHONDONTWRITEBYTECODE=1
[ -z "${3:-}" ] || export QINFER_GRAMMAR_LIBRARY=$3
cd "$2/bindings/python" || exit 1
# Another Python may come first on the path than the system's, which has the packages that ./dev installs.
python=""
for candidate in python3 /usr/bin/python3; do
  [ -n "$python" ] || ! "$candidate" -c 'import pytest, pycparser, numpy, mypy' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || { echo "skipped: machine: python3-pytest, -pycparser, -numpy or mypy is not there"; exit 77; }
"$python" -m pytest -q -p no:cacheprovider --all-called tests || exit 1
"$python" -m pytest -q -p no:cacheprovider "$2"/tests/habits/test_*.py || exit 1
"$python" -m mypy --cache-dir=/dev/null --strict src/qinfer || exit 1
