#!/usr/bin/env bash
# The C program in the README works when pasted: it is cut out, compiled against the installed package, and run.
# usage: check_readme.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
libdir=$(dirname "$(find "$work/prefix" -name 'libqinfer.so' | head -1)")
sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '1d;$d' >"$work/story.c"
cc -std=c99 -Wall -Wextra "$work/story.c" $(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs qinfer) -Wl,-rpath,"$libdir" -o "$work/story"
cd "$source"
story=$("$work/story")
[[ "$story" == *"little girl named"* ]] || { echo "FAILED: the program printed: $story"; exit 1; }
[ "$(sed -n '/^int main/,/^}/p' "$work/story.c" | wc -l)" -le 10 ] || { echo "FAILED: more than ten lines"; exit 1; }
echo "the program of the README: ok"
