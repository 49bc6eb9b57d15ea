#!/usr/bin/env bash
# 5,000 random requests of OpenAI's interface: every answer, chunk and error is what the service's specification says.
# Skipped where the specification, or a package that reads it, is not there.
# usage: check_openai.sh SHARED_LIBRARY SOURCE_DIR
set -u
specification=${QINFER_TEST_DATA:-$2/build/test-data}/openai/openai-cut.yaml
[ -f "$specification" ] || { echo "skipped: data: openai/openai-cut.yaml is not there, see tests/test_data.txt"; exit 77; }
python=""
for candidate in python3 /usr/bin/python3; do
  [ -n "$python" ] || ! "$candidate" -c 'import jsonschema, yaml' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || { echo "skipped: machine: python3-jsonschema or python3-yaml is not there"; exit 77; }
export QINFER_LIBRARY=$1 PYTHONPATH=$2/bindings/python/src PYTHONDONTWRITEBYTECODE=1
"$python" -W ignore "$2/tests/packages/check_openai.py" "$2/examples/models/tiny-chat" "$specification" 5000
