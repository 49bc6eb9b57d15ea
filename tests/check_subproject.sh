#!/usr/bin/env bash
# What the build does with the wishes of those who configure it: projects that contain it, packagers, other compilers.
# Nothing is linked; what CMake wrote is looked at, and at most single files are compiled.
# usage: check_subproject.sh SOURCE_DIR CXX_COMPILER
set -eu
source=$1 cxx=$2
unset CFLAGS CXXFLAGS LDFLAGS CMAKE_BUILD_TYPE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# 32-bit targets: one sentence. Only x86 compilers know -m32; without the 32-bit headers and libraries they still say
# enough, because nothing is linked and the header refuses before it includes anything.
if "$cxx" -m32 -E -x c++ /dev/null >/dev/null 2>&1; then
  cmake -G Ninja -S "$source" -B "$work/m32" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_FLAGS=-m32 -DCMAKE_CXX_FLAGS=-m32 \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY >"$work/log" 2>&1 && fail "configures for a 32-bit target"
  grep -q 'qinfer needs a 64-bit target' "$work/log" || fail "no word about 32 bits: $(tail -n 20 "$work/log")"
  "$cxx" -m32 -std=c++20 -fsyntax-only -x c++ "$source/src/base/checked.h" 2>"$work/log" && fail "checked.h compiles for 32 bits"
  grep -q 'error:.*qinfer needs a 64-bit target' "$work/log" || fail "checked.h says: $(cat "$work/log")"
  echo "32-bit targets: refused in a sentence"
fi

# A parent with nothing but a program that links qinfer.
mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
add_subdirectory($source qinfer)
END
parent() {
  cmake -G Ninja -S "$work/parent" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" "$@" >"$work/log" 2>&1
}

# Flags for optimisation at link time: of each half of the library one file is compiled, and is no bytecode.
parent -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_POLICY_DEFAULT_CMP0069=NEW -DCMAKE_CXX_FLAGS=-flto \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON || fail "$(cat "$work/log")"
for object in qinfer_objects.dir/src/model/spec.cpp qinfer_kernels.dir/kernels/reference/elementwise.cpp; do
  cmake --build "$work/build" --target "qinfer/CMakeFiles/$object.o" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
  file=$work/build/qinfer/CMakeFiles/$object.o
  { readelf -h "$file" && ! readelf -SW "$file" | grep -q gnu.lto; } >"$work/log" 2>&1 || fail "$object is bytecode"
done
echo "optimisation at link time: machine code all the same"
