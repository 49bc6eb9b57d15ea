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
add_executable(app app.c)
target_link_libraries(app PRIVATE qinfer::qinfer)
END
touch "$work/parent/app.c"
parent() {
  cmake -G Ninja -S "$work/parent" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" "$@" >"$work/log" 2>&1
}

# Flags for optimisation at link time: of each half of the library one file is compiled, and is no bytecode.
parent -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_POLICY_DEFAULT_CMP0069=NEW -DCMAKE_CXX_FLAGS=-flto \
  -DQINFER_UNITY_BUILD=OFF || fail "$(cat "$work/log")"
for object in qinfer_src.dir/src/model/spec.cpp qinfer_kernels_portable.dir/kernels/reference/elementwise.cpp; do
  cmake --build "$work/build" --target "qinfer/CMakeFiles/$object.o" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
  file=$work/build/qinfer/CMakeFiles/$object.o
  { readelf -h "$file" && ! readelf -SW "$file" | grep -q gnu.lto; } >"$work/log" 2>&1 || fail "$object is bytecode"
done
echo "optimisation at link time: machine code all the same"

# A linker like lld, which the compiler brought along: another one makes the static library. If there is no other, the
# shared library is still there, and it is said what is missing.
cat >"$work/ld.lld" <<'END'
#!/bin/sh
echo "ld.lld: error: unknown argument '--force-group-allocation'" >&2
exit 1
END
chmod +x "$work/ld.lld"
# builds FILE: whether it is among what the parent builds
builds() { ninja -C "$work/build" -t targets all 2>/dev/null | grep -qE "(^|/)$1: "; }
rm -r "$work/build"
parent -DCMAKE_LINKER="$work/ld.lld" || fail "$(cat "$work/log")"
ninja -C "$work/build" -t commands qinfer/libqinfer.a >"$work/log"
grep -q 'force-group-allocation' "$work/log" || fail "no command combines the objects: $(tail -n 3 "$work/log")"
grep -q "$work/ld.lld.*force-group-allocation" "$work/log" && fail "lld is to combine the objects"
parent -DQINFER_COMBINING_LINKER="$work/ld.lld" || fail "$(cat "$work/log")"
tr -s ' \n' ' ' <"$work/log" | grep -q 'only the shared library is built, because.*install binutils' || fail "not said what is missing: $(cat "$work/log")"
{ builds libqinfer.so && ! builds libqinfer.a; } || fail "not the shared library alone"
parent -DQINFER_BUILD_SHARED=OFF && fail "configures without a linker for the only library"
grep -q 'force-group-allocation' "$work/log" || fail "not said what is missing: $(cat "$work/log")"
parent -DQINFER_BUILD_STATIC=OFF && fail "configures without a library"
echo "a linker that cannot combine objects: another one, or the shared library alone"

# BUILD_SHARED_LIBS chooses, without it there are both; qinfer::qinfer, which the app links, is always there. Installed
# too: the package of the static library alone has both names. (For that an empty library will do.)
rm -r "$work/build"
parent || fail "$(cat "$work/log")"
{ builds libqinfer.so && builds libqinfer.a; } || fail "not both libraries"
rm -r "$work/build"
parent -DBUILD_SHARED_LIBS=ON || fail "$(cat "$work/log")"
{ builds libqinfer.so && ! builds libqinfer.a; } || fail "BUILD_SHARED_LIBS=ON does not build the shared library alone"
rm -r "$work/build"
parent -DBUILD_SHARED_LIBS=OFF -DQINFER_INSTALL=ON || fail "$(cat "$work/log")"
{ builds libqinfer.a && ! builds libqinfer.so; } || fail "BUILD_SHARED_LIBS=OFF does not build the static library alone"
touch "$work/build/qinfer/libqinfer.a"
cmake --install "$work/build" --prefix "$work/prefix" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
cmake -G Ninja -S "$source/examples/find_package" -B "$work/host" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
ninja -C "$work/host" -t commands host | grep -q "$work/prefix/.*libqinfer.a" || fail "qinfer::qinfer of a static package is not libqinfer.a"
pc=$(dirname "$(find "$work/prefix" -name qinfer.pc)")
PKG_CONFIG_LIBDIR=$pc pkg-config --libs qinfer | grep -q -e '-lqinfer.*-lstdc++' || fail "pkg-config without --static lacks what a static package needs"
echo "BUILD_SHARED_LIBS: honoured"

# Flags: the parent's build type stays as it is, empty too; a user's flags for a configuration are not replaced; warnings
# are errors in the presets for work on qinfer only.
rm -r "$work/build"
parent || fail "$(cat "$work/log")"
grep -qx 'CMAKE_BUILD_TYPE:STRING=' "$work/build/CMakeCache.txt" || fail "the parent's build type became $(grep CMAKE_BUILD_TYPE "$work/build/CMakeCache.txt")"
cmake -G Ninja -S "$source" -B "$work/package" -DCMAKE_CXX_COMPILER="$cxx" -DQINFER_BUILD_TESTS=OFF -DQINFER_BUILD_EXAMPLES=OFF \
  -DQINFER_UNITY_BUILD=OFF -DCMAKE_CXX_FLAGS_RELEASE="-O2 -g" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
grep '"command".*src/model/spec.cpp' "$work/package/compile_commands.json" >"$work/command"
grep -q -e ' -O2 -g ' "$work/command" || fail "not compiled with the user's flags: $(cat "$work/command")"
grep -q -e ' -O3' -e ' -DNDEBUG' -e ' -Werror' "$work/command" && fail "compiled with flags that the user did not give: $(cat "$work/command")"
for preset in release bench dev asan tsan lint fuzz; do
  (cd "$source" && cmake --preset $preset -N) | grep -q 'QINFER_WERROR="ON"' || fail "warnings are no errors in the preset $preset"
done
echo "flags: the user's"

# FetchContent, as a project has it that names the sources: no tests, no install rules, no packages, no command of ours.
mkdir "$work/fetching"
cat >"$work/fetching/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(fetching LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(qinfer SOURCE_DIR $source)
FetchContent_MakeAvailable(qinfer)
enable_testing()
add_executable(app ../parent/app.c)
target_link_libraries(app PRIVATE qinfer::qinfer)
END
cmake -G Ninja -S "$work/fetching" -B "$work/fetched" -DCMAKE_CXX_COMPILER="$cxx" -DQINFER_UNITY_BUILD=OFF >"$work/log" 2>&1 || fail "$(cat "$work/log")"
(cd "$work/fetched" && ctest -N) | grep -q 'Total Tests: 0' || fail "a parent that fetches has tests of ours"
for target in qinfer_tests qinfer_cli package; do
  ninja -C "$work/fetched" -t targets all | grep -q "^$target: " && fail "a parent that fetches has the target $target"
done
find "$work/fetched" -name cmake_install.cmake -exec grep -l 'file(INSTALL' {} + | grep . && fail "a parent that fetches has install rules of ours"
ninja -C "$work/fetched" -t commands app | grep -q 'src/model/spec.cpp' || fail "the app does not build the library"
echo "FetchContent: the library alone"
