#!/usr/bin/env bash
# The README's C program and the commands after it work when pasted, word for word: they are cut out and run in a folder
# that has what the checkout has, with a home of their own. Only ./dev install is a stand-in, which installs what is
# built already; check_install.sh looks at the real one.
# usage: check_readme.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/checkout/examples" "$work/home"
for file in "$source"/*; do
  case $file in */dev | */examples | */story*) ;; *) ln -s "$file" "$work/checkout/" ;; esac
done
ln -s "$source/examples/models" "$work/checkout/examples/"
cat >"$work/checkout/dev" <<END
#!/bin/sh
test "\$#" = 2 && test "\$1" = install && exec cmake --install "$build" --prefix "\$2" >"$work/log"
END
chmod +x "$work/checkout/dev"
sed -n '/^## From C$/,/^## /p' "$source/README.md" >"$work/section"
program=$work/checkout/examples/story.c # check_docs.sh: the README quotes the one in the checkout
sed -n '/^```c$/,/^```$/p' "$work/section" | sed '1d;$d' >"$program"
sed -n '/^```$/,/^```$/p' <(sed '/^```c$/,/^```$/d' "$work/section") | sed '1d;$d' >"$work/commands"
grep -q '^\./dev install ' "$work/commands" || { echo "FAILED: no commands beside the program"; exit 1; }
story=$(cd "$work/checkout" && env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH HOME="$work/home" bash -e "$work/commands") ||
  { echo "FAILED: the commands of the README"; exit 1; }
[[ "$story" == *"little girl named"* ]] || { echo "FAILED: the program printed: $story"; exit 1; }
cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only "$program" -I"$work/home/qinfer/include"
echo "the program and the commands of the README: ok"
