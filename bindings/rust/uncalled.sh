#!/bin/sh
# Names the public functions of the crate qinfer that no test program contains, and fails if there is one.
#   uncalled.sh [--features FEATURES]     with the environment of test.sh, after it has built the tests
# Without the feature grammar the functions that it brings do not count.
# A test program has the functions that something in it calls and no others, since the linker leaves out what nothing
# refers to. tests/misuse.rs does not count: it calls whatever there is with values that cannot be.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
symbols=$(mktemp)
trap 'rm -f "$symbols"' EXIT

cargo test --locked --quiet --no-run --message-format=json --manifest-path "$here/Cargo.toml" --package qinfer "$@" |
  sed -n '/"kind":\["test"\]/s/.*"executable":"\([^"]*\)".*/\1/p' | grep -v '/misuse-' |
  while read -r program; do
    nm "$program"
  done >"$symbols"
grep -q 5Model4load "$symbols" || {
  echo "uncalled.sh: the test programs have no symbols" >&2
  exit 1
}

files=$(ls "$here"/qinfer/src/*.rs)
case "$*" in
  *grammar*) ;;
  *) files=$(echo "$files" | grep -v /grammar.rs) ;;
esac

# A type (or, of a free function, its module) and a name for each: of impl blocks, and of traits what has a body.
functions() {
  awk '
    FNR == 1 { scope = FILENAME; gsub(/.*\/|\.rs$/, "", scope); module = scope; trait = wanted = "" }
    /^ *(unsafe )?impl.*\{$/ { scope = $0; sub(/(<[^<>]*>)? *\{$/, "", scope); sub(/.*[^A-Za-z0-9_]/, "", scope) }
    /^}/ { scope = module; trait = "" }
    /^pub (unsafe )?trait / { trait = $0; sub(/^pub (unsafe )?trait /, "", trait); sub(/[^A-Za-z0-9_].*/, "", trait) }
    /^ *pub ((const|unsafe|async) )*fn / || (trait != "" && /^    fn /) {
      wanted = $0
      sub(/.*fn /, "", wanted)
      sub(/[^A-Za-z0-9_].*/, "", wanted)
      if (trait == "") { print scope, wanted; wanted = "" }
    }
    wanted != "" && /\{$/ { print trait, wanted; wanted = "" }
    /;$/ { wanted = "" }
  ' $files
}

functions | {
  status=0
  while read -r scope name; do
    # As both ways of mangling have it: names with their length, and $GT$ after "impl Type" in another module.
    if ! grep -q "${#scope}$scope${#name}$name\|\.$scope\$GT\$${#name}$name" "$symbols"; then
      echo "no test calls $scope::$name" >&2
      status=1
    fi
  done
  exit $status
}
