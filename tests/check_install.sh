#!/usr/bin/env bash
# The installed package as a host uses it: through find_package and through pkg-config, shared and static, from C.
# usage: check_install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
libdir=$(dirname "$(find "$work/prefix" -name 'libqinfer.so' | head -1)")

for static in OFF ON; do
  cmake -G Ninja -S "$source/examples/find_package" -B "$work/cmake-$static" -DCMAKE_PREFIX_PATH="$work/prefix" -DQINFER_LINK_STATIC=$static >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  cmake --build "$work/cmake-$static" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  program=$(find "$work/cmake-$static" -maxdepth 1 -type f -executable | head -1)
  "$program" | grep -q '[0-9]\.[0-9]' || { echo "FAILED: find_package, static $static"; exit 1; }
done

# A host of the shared library needs no other package, and gets no other's flags.
flags=$(PKG_CONFIG_LIBDIR="$libdir/pkgconfig" pkg-config --cflags --libs qinfer) || { echo "FAILED: qinfer.pc needs other packages"; exit 1; }
for flag in $flags; do
  [[ $flag =~ ^(-I.*|-L.*|-lqinfer)$ ]] || { echo "FAILED: pkg-config gives every host $flag"; exit 1; }
done

export PKG_CONFIG_PATH="$libdir/pkgconfig"
flags=(-std=c99 -Wall -Wextra -pedantic -Werror)
cc "${flags[@]}" "$source/examples/minimal.c" $(pkg-config --cflags --libs qinfer) -Wl,-rpath,"$libdir" -o "$work/shared"
cc "${flags[@]}" "$source/examples/minimal.c" $(pkg-config --cflags qinfer) -Wl,-Bstatic -L"$libdir" -lqinfer -Wl,-Bdynamic \
  $(pkg-config --static --libs qinfer | sed 's/-lqinfer//') -o "$work/static"
ldd "$work/static" | grep -q qinfer && { echo "FAILED: the static host needs libqinfer.so"; exit 1; }
for program in shared static; do
  "$work/$program" /nonexistent hello 2>"$work/err" && { echo "FAILED: $program should fail"; exit 1; }
  grep -q nonexistent "$work/err" || { echo "FAILED: $program does not name the folder: $(cat "$work/err")"; exit 1; }
done
[ "$(find "$work/prefix/include" -type f | wc -l)" = 2 ] || { echo "FAILED: more than the two headers are installed"; exit 1; }
echo "find_package and pkg-config, shared and static: ok"
