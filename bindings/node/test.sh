#!/usr/bin/env bash
# Builds the package for Node.js against an installed qinfer, and checks all of it: format, types, tests, the packed
# package in an empty folder, the example, the bench. Nothing is written into the checkout.
# test.sh PREFIX [BENCH_RUNS]    PREFIX: where lib/pkgconfig/qinfer.pc is; BENCH_RUNS: default 20
# The work is done in $QINFER_BINDINGS_WORK/node, or in a temporary folder that is removed.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
prefix=$(cd "$1" && pwd)
runs=${2:-20}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)

skip() { echo "skipped: machine: $1"; exit 77; }
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
[ "$(node -p 'parseInt(process.versions.node)')" -ge 20 ] || skip "node is older than 20"
[ "$(node -p 'process.platform + "-" + process.arch')" = linux-x64 ] || skip "the package is for Linux on x86-64"
command -v "${CXX:-c++}" >/dev/null && command -v "${CC:-cc}" >/dev/null || skip "there is no C++ compiler"
[ -f "$prefix/lib/pkgconfig/qinfer.pc" ] || { echo "test.sh: $prefix/lib/pkgconfig/qinfer.pc is not there" >&2; exit 2; }

if [ -n "${QINFER_BINDINGS_WORK:-}" ]; then
  work=$QINFER_BINDINGS_WORK/node
  rm -rf "$work"
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
unset LD_LIBRARY_PATH NODE_OPTIONS NODE_PATH QINFER_GRAMMAR_LIBRARY
# libqinfer_grammar is built with the library where there is cargo.
grammars=$(ls "$prefix"/lib*/libqinfer_grammar.so.* "$prefix"/lib/*/libqinfer_grammar.so.* 2>/dev/null || true)
[ -n "$grammars" ] || echo "without the tests of grammars: there is no libqinfer_grammar in $prefix"

step() { printf '== %s\n' "$1"; }
mkdir "$work/package"
tar -C "$here" --exclude=node_modules --exclude=prebuilds -cf - . | tar -C "$work/package" -xf -
cd "$work/package"

step "dependencies, as package-lock.json has them"
npm ci --ignore-scripts --no-audit --no-fund

step "the addon, with warnings as errors"
npm run --silent prebuild -- "$prefix"

step "format and types"
npm run --silent lint
for formatter in clang-format-16 clang-format; do
  command -v "$formatter" >/dev/null && "$formatter" --version | grep -q 'version 16\.' || continue
  "$formatter" --style="file:$checkout/.clang-format" --dry-run --Werror src/*.h src/*.cpp bench/*.c
  break
done

step "tests"
mkdir "$work/calls"
QINFER_CHECKOUT=$checkout QINFER_NODE_CALLS=$work/calls npm test --silent
if [ -n "$grammars" ]; then
  node scripts/uncalled.mjs "$work/calls"
else
  node scripts/uncalled.mjs "$work/calls" '^(new )?(Grammar|Matcher)|^Session\.(setG|g)rammar$' # their tests were skipped
fi

step "the packed package in an empty folder"
npm pack --silent --pack-destination "$work"
mkdir "$work/empty"
cd "$work/empty"
npm init --yes >/dev/null
npm install --offline --ignore-scripts --no-audit --no-fund "$work"/qinfer-*.tgz
ln -s "$checkout/examples/models" models
without=${grammars:+nothing at all}
awk -v without="${without:-Grammar}" '/^```js$/ {inside = 1; block = ""; next}
  inside && /^```$/ {inside = 0; if (!index(block, without)) printf "%s", block}
  inside {block = block $0 "\n"}' "$here/README.md" >readme.mjs
[ "$(wc -l <readme.mjs)" -ge 10 ]
node readme.mjs | tee readme.txt
grep -q '^, there was a little girl named Lily. She was a very kind girl\.' readme.txt
[ -z "$grammars" ] || grep -Eq '^(Lily|Tom|Sue) is [3-9] years old$' readme.txt
for story in 'Once upon a time' 'Tom and Sue' 'The sun'; do grep -q "^$story.\{30\}" readme.txt; done
# The library is the package's own, not one that the system has.
node -e "
  require('qinfer');
  const library = process.report.getReport().sharedObjects.filter((name) => name.includes('libqinfer'));
  if (library.length !== 1 || !library[0].startsWith(require('fs').realpathSync('node_modules'))) throw new Error(library);"

if [ -x "$prefix/bin/qinfer-server" ]; then
  "$prefix/bin/qinfer-server" --version >installed.txt
  node_modules/.bin/qinfer-server --version | cmp - installed.txt
fi

step "the examples, with models that are named and with those of the repository"
examples() { # FOLDER [MODEL_FOLDER]
  node "$1/story.mjs" ${2:+"$2/tiny-stories"} | tee story.txt
  grep -q '^Once upon a time.*\.$' story.txt
  [ -n "$grammars" ] || return 0
  node "$1/schema.mjs" ${2:+"$2/tiny-chat"} | tee schema.txt
  [ "$(grep -Ec '^(Lily|Tom|Sue) is [3-9] years old$' schema.txt)" -eq 3 ]
}
examples node_modules/qinfer/examples models
# The built package where the repository has it.
mkdir -p "$work/checkout/bindings/node"
tar -C "$work/package" --exclude=node_modules -cf - . | tar -C "$work/checkout/bindings/node" -xf -
ln -s "$checkout/examples" "$work/checkout/examples"
examples "$work/checkout/bindings/node/examples"
if node node_modules/qinfer/examples/story.mjs 2>usage.txt; then exit 1; fi
grep -q '^usage: node story\.mjs' usage.txt

step "the bench"
cd "$work/package"
"${CC:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror bench/baseline.c -I"$prefix/include" -L"$prefix/lib" \
  -lqinfer -Wl,-rpath,"$prefix/lib" -o "$work/baseline"
node bench/bench.mjs "$work/baseline" "$checkout/examples/models/tiny-stories" "$runs"
echo "node: all passed"
