#!/usr/bin/env bash
# The README's C program and the commands after it work when pasted, word for word: they are cut out and run in a folder
# that has what the checkout has, with a home of their own. Only ./dev install is a stand-in, which installs what is
# built already; check_install.sh looks at the real one.
# usage: check_readme.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/checkout" "$work/home"
for file in "$source"/*; do
  case $file in */dev | */story*) ;; *) ln -s "$file" "$work/checkout/" ;; esac
done
cat >"$work/checkout/dev" <<END
#!/bin/sh
test "\$#" = 2 && test "\$1" = install && exec cmake --install "$build" --prefix "\$2" >"$work/log"
END
chmod +x "$work/checkout/dev"
sed -n '/^## From C$/,/^## /p' "$source/README.md" >"$work/section"
sed -n '/^```c$/,/^```$/p' "$work/section" | sed '1d;$d' >"$work/checkout/story.c"
sed -n '/^```$/,/^```$/p' <(sed '/^```c$/,/^```$/d' "$work/section") | sed '1d;$d' >"$work/commands"
grep -q '^\./dev install ' "$work/commands" || { echo "FAILED: no commands beside the program"; exit 1; }
story=$(cd "$work/checkout" && env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH HOME="$work/home" bash -e "$work/commands") ||
  { echo "FAILED: the commands of the README"; exit 1; }
[[ "$story" == *"little girl named"* ]] || { echo "FAILED: the program printed: $story"; exit 1; }
cc -std=c99 -Wall -Wextra -Werror -fsyntax-only "$work/checkout/story.c" -I"$work/home/qinfer/include"
[ "$(sed -n '/^int main/,/^}/p' "$work/checkout/story.c" | wc -l)" -le 10 ] || { echo "FAILED: more than ten lines"; exit 1; }
echo "the program and the commands of the README: ok"
