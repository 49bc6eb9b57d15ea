#!/usr/bin/env bash
# Programs in C++ as people write them who have read qinfer.hpp once (cpp/): each compiles with strict warnings as C++17
# and C++20, and prints what the comments at its end say.
# usage: check_cpp.sh SHARED_LIBRARY SOURCE_DIR [COMPILER]
set -u
library=$1 source=$2 compiler=${3:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wold-style-cast)
failed=0 checked=0
for program in "$source"/tests/habits/cpp/*.cpp; do
  name=$(basename "$program" .cpp)
  for standard in c++17 c++20; do
    "$compiler" -std=$standard "${flags[@]}" -I"$source/include" "$program" -pthread -L"$(dirname "$library")" -lqinfer \
      -Wl,-rpath,"$(dirname "$library")" -o "$work/$name" ||
      { echo "FAILED: $name.cpp does not compile as $standard"; failed=1; continue; }
    (cd / && timeout 120 "$work/$name" "$source/examples/models/tiny-stories") >"$work/out" 2>"$work/err" ||
      { echo "FAILED: $name: exit status $?: $(cat "$work/err")"; failed=1; }
    awk '/^\/\/ / {lines = lines substr($0, 4) "\n"; next} {lines = ""} END {printf "%s", lines}' "$program" >"$work/wanted"
    [ -s "$work/wanted" ] && cmp -s "$work/out" "$work/wanted" ||
      { echo "FAILED: $name prints: $(cat "$work/out")"; failed=1; }
    checked=$((checked + 1))
  done
done
echo "$checked programs in C++"
[ $failed -eq 0 ] && [ $checked -ge 4 ]
