#!/usr/bin/env bash
# The Conan recipe: makes the package out of the tree on the system's packages, and lets a host in C use it
# (tests/packages/conan). Conan itself comes from the Python registry.
# usage: check_conan.sh SOURCE_DIR WORK_DIR
set -eu
source=$(realpath "$1")
mkdir -p "$2" && work=$(realpath "$2")
[ -x "$work/tools/bin/python" ] || python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check conan==2.34.0
export CONAN_HOME=$work/home
rm -rf "$CONAN_HOME"
log=$work/log
conan() { "$work/tools/bin/conan" "$@" >"$log" 2>&1 || { tail -n 60 "$log"; echo "FAILED: conan $*"; exit 1; }; }
conan profile detect
conan create "$source" --no-remote -s compiler.cppstd=gnu20 -c tools.build:jobs="$(nproc)" -c tools.cmake.cmake_layout:test_folder="$work/host"
grep -q '^qinfer 0\.' "$log" || { tail -n 20 "$log"; echo "FAILED: the host did not say the library's version"; exit 1; }
echo "Conan: package and host"
