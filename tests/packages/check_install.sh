#!/usr/bin/env bash
# The installed package as a host uses it: through find_package and through pkg-config, shared and static, from C. Then
# the installed command, and how ./dev install gets there.
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
printf '#include <qinfer/qinfer_chat.hpp>\nint main() { return qi::version().empty(); }\n' >"$work/chat.cpp"
c++ -std=c++17 -Wall -Wextra -pedantic -Werror "$work/chat.cpp" $(pkg-config --cflags --libs qinfer) -Wl,-rpath,"$libdir" -o "$work/chat"
"$work/chat" || { echo "FAILED: a host in C++"; exit 1; }
headers=3
if [ -e "$libdir/libqinfer_grammar.so" ]; then
  headers=5
  printf '#include <qinfer/qinfer_grammar.h>\nint main(void) { return qinfer_grammar_version() != QINFER_VERSION; }\n' >"$work/grammar.c"
  cc "${flags[@]}" "$work/grammar.c" $(pkg-config --cflags --libs qinfer-grammar) -Wl,-rpath,"$libdir" -o "$work/grammar"
  "$work/grammar" || { echo "FAILED: the grammar library is not of the header's version"; exit 1; }
  printf '#include <qinfer/qinfer_grammar.hpp>\nint main() { return qi::GrammarMatcher(qi::Grammar::regex(qi::Model::load(""), "a")).mask().empty(); }\n' >"$work/classes.cpp"
  c++ -std=c++17 -Wall -Wextra -pedantic -Werror "$work/classes.cpp" $(pkg-config --cflags --libs qinfer qinfer-grammar) -Wl,-rpath,"$libdir" -o "$work/classes"
  mkdir "$work/host"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(host LANGUAGES C CXX)' 'find_package(qinfer REQUIRED)' \
    "add_executable(host $work/grammar.c)" 'target_link_libraries(host qinfer::grammar)' >"$work/host/CMakeLists.txt"
  { cmake -G Ninja -S "$work/host" -B "$work/host/build" -DCMAKE_PREFIX_PATH="$work/prefix" &&
    cmake --build "$work/host/build"; } >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  "$work/host/build/host" || { echo "FAILED: qinfer::grammar"; exit 1; }
  echo "the grammar library through find_package and pkg-config: ok"
fi
[ "$(find "$work/prefix/include" -type f | wc -l)" = $headers ] || { echo "FAILED: not $headers headers are installed"; exit 1; }
echo "find_package and pkg-config, shared and static: ok"

if grep -q '^QINFER_BUILD_EXAMPLES:BOOL=ON' "$build/CMakeCache.txt"; then
  mv "$work/prefix" "$work/moved"
  "$work/moved/bin/qinfer" tokenize "$source/examples/models/tiny-stories" "Once upon a time" >"$work/log" 2>&1 ||
    { echo "FAILED: the installed command: $(cat "$work/log")"; exit 1; }
  if [ -e "$work/moved/bin/qinfer-server" ]; then # where there is Boost
    "$work/moved/bin/qinfer-server" --help >"$work/log" 2>&1 || { echo "FAILED: the installed server: $(cat "$work/log")"; exit 1; }
    "$work/moved/bin/qinfer" serve nonexistent 2>"$work/log" && { echo "FAILED: qinfer serve nonexistent"; exit 1; }
    grep -q '^qinfer-server: .*nonexistent' "$work/log" || { echo "FAILED: qinfer serve: $(cat "$work/log")"; exit 1; }
  fi
  mv "$work/moved" "$work/prefix"
  echo "the commands, in a moved tree: ok"
fi
for file in LICENSE README.md; do
  cmp "$source/$file" "$work/prefix/share/doc/qinfer/$file" || { echo "FAILED: $file is not installed"; exit 1; }
done
cmp "$source/cmake/debian-copyright" "$work/prefix/share/doc/qinfer/copyright" || { echo "FAILED: no notices are installed"; exit 1; }

# ./dev install: its commands, noted by stand-ins for the tools it calls, on a machine that lacks Catch2 alone; then the
# preset, where Catch2 is not to be found.
mkdir "$work/tools"
cat >"$work/tools/note" <<END
#!/bin/sh
echo "\$(basename "\$0") \$*" >>"$work/calls"
END
cat >"$work/tools/dpkg-query" <<'END'
#!/bin/sh
case "$*" in *catch2) exit 1 ;; *) echo "install ok installed" ;; esac
END
chmod +x "$work/tools/note" "$work/tools/dpkg-query"
for tool in cmake apt-get sudo; do ln -s note "$work/tools/$tool"; done
PATH="$work/tools:$PATH" "$source/dev" install "$work/elsewhere" 2>/dev/null
diff <(sed "s/ -DCMAKE_[A-Z]*_COMPILER_LAUNCHER=[a-z]*//g" "$work/calls") - <<END || { echo "FAILED: ./dev install runs other commands"; exit 1; }
cmake --preset install
cmake --build --preset install
cmake --install build/install --prefix $work/elsewhere
END
(cd "$source" && cmake --preset install -B "$work/install" -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON) >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
ninja -C "$work/install" -t targets all | grep -q 'qinfer_tests' && { echo "FAILED: ./dev install builds the tests"; exit 1; }
echo "./dev install: no tests, no Catch2"
