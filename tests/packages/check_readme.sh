#!/usr/bin/env bash
# The README's C program and the commands after it work when pasted, word for word, and so do the commands at the
# beginning of docs/embedding.md: they are cut out and run in a folder that has what the checkout has, with a home of
# their own. Only ./dev install is a stand-in, which installs what is built already; check_install.sh looks at the real
# one.
# usage: check_readme.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/checkout/examples"
for file in "$source"/*; do
  case $file in */dev | */examples | */story* | */fork*) ;; *) ln -s "$file" "$work/checkout/" ;; esac
done
for file in "$source"/examples/*; do
  case $file in */story.c) ;; *) ln -s "$file" "$work/checkout/examples/" ;; esac
done
cat >"$work/checkout/dev" <<END
#!/bin/sh
test "\$#" = 2 && test "\$1" = install && exec cmake --install "$build" --prefix "\$2" >"$work/log"
END
chmod +x "$work/checkout/dev"

# paste PAGE WHAT_IT_PRINTS: runs $work/commands
paste() {
  local printed
  grep -q '^\./dev install ' "$work/commands" || { echo "FAILED: $1 has no commands that install"; exit 1; }
  rm -rf "$work/home"
  mkdir "$work/home"
  printed=$(cd "$work/checkout" && env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH HOME="$work/home" bash -e "$work/commands") ||
    { echo "FAILED: the commands of $1"; exit 1; }
  [[ "$printed" == *"$2"* ]] || { echo "FAILED: the commands of $1 printed: $printed"; exit 1; }
}

sed -n '/^## From C$/,/^## /p' "$source/README.md" >"$work/section"
program=$work/checkout/examples/story.c # check_docs.sh: the README quotes the one in the checkout
sed -n '/^```c$/,/^```$/p' "$work/section" | sed '1d;$d' >"$program"
sed -n '/^```$/,/^```$/p' <(sed '/^```c$/,/^```$/d' "$work/section") | sed '1d;$d' >"$work/commands"
paste README.md "little girl named"
cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only "$program" -I"$work/home/qinfer/include"

awk '/^```$/ {if (inside) exit; inside = 1; next} inside' "$source/docs/embedding.md" >"$work/commands"
paste docs/embedding.md "KV blocks: "
export PKG_CONFIG_PATH="$work/home/qinfer/lib/pkgconfig"
cc -std=c99 "$source/examples/threads.c" $(pkg-config --cflags --libs qinfer) -pthread -o "$work/threads"
if pkg-config --exists qinfer-grammar; then
  cc -std=c99 "$source/examples/json_schema.c" $(pkg-config --cflags --libs qinfer qinfer-grammar) -o "$work/json_schema"
fi
echo "the program and the commands of the README, and the commands of docs/embedding.md: ok"
