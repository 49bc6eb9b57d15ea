#!/usr/bin/env bash
# The copyright file of the packages names what is compiled in: the libraries whose headers the sources include, and the
# crates of libqinfer_grammar where there is a cargo to ask. Each licence that it names has its text, or where that is.
# usage: check_notices.sh SOURCE_DIR
set -u
cd "$1" || exit 1
notices=cmake/debian-copyright failed=0 works=0
say() { echo "FAILED: $*"; failed=1; }
names() { grep -qE "^Files: (.* )?$1( |\$)" $notices; }

# (absl is what clang's analysis of locks wants, in no package.)
while IFS= read -r folder; do
  works=$((works + 1))
  names "$folder/\\*" || say "$notices does not name $folder/*, whose headers are included"
done < <(grep -rhoE '^ *# *include <[A-Za-z0-9_]+/' include src capi kernels server examples/cli | sed 's/.*<//; s:/$::' |
  grep -vxE 'sys|linux|qinfer|absl' | sort -u)
for header in xxhash.h utf8proc.h; do names $header || say "$notices does not name $header"; done
[ $works -ge 6 ] || say "only $works libraries were found"

cargo=$(command -v cargo || echo "${HOME:-}/.cargo/bin/cargo")
if [ -x "$cargo" ] && crates=$("$cargo" tree --offline --locked --manifest-path grammar/Cargo.toml --edges normal,no-proc-macro \
  --prefix none --format '{p}' 2>/dev/null); then
  while IFS= read -r crate; do
    works=$((works + 1))
    names "crates/$crate/\\*" || say "$notices does not name crates/$crate/*"
  done < <(awk '{ print $1 }' <<<"$crates" | grep -vx qinfer-grammar | sort -u)
  [ $works -ge 20 ] || say "only $works libraries and crates were found"
fi

while IFS= read -r licence; do
  grep -A1 -xF "License: $licence" $notices | grep -q '^ ' || say "$notices has no text of $licence"
done < <(awk '/^Files: / { files = 1 } /^License: / && files { sub(/^License: /, ""); print; files = 0 }' $notices |
  sed 's/ or /\n/g; s/ and /\n/g' | sort -u)

[ $failed -eq 0 ] && echo "$works libraries and crates: named, with their licences"
exit $failed
