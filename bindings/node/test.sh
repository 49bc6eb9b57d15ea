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
unset LD_LIBRARY_PATH NODE_OPTIONS NODE_PATH

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
node scripts/uncalled.mjs "$work/calls"

step "the packed package in an empty folder"
npm pack --silent --pack-destination "$work"
mkdir "$work/empty"
cd "$work/empty"
npm init --yes >/dev/null
npm install --offline --ignore-scripts --no-audit --no-fund "$work"/qinfer-*.tgz
ln -s "$checkout/examples/models" models
sed -n '/^```js$/,/^```$/p' "$here/README.md" | sed '/^```/d' >readme.mjs
[ "$(wc -l <readme.mjs)" -ge 10 ]
node readme.mjs | tee readme.txt
grep -q '^, there was a little girl named Lily. She was a very kind girl\.' readme.txt
for story in 'Once upon a time' 'Tom and Sue' 'The sun'; do grep -q "^$story.\{30\}" readme.txt; done
# The library is the package's own, not one that the system has.
node -e "
  require('qinfer');
  const library = process.report.getReport().sharedObjects.filter((name) => name.includes('libqinfer'));
  if (library.length !== 1 || !library[0].startsWith(require('fs').realpathSync('node_modules'))) throw new Error(library);"

step "the example"
node node_modules/qinfer/examples/story.mjs models/tiny-stories | tee story.txt
grep -q '^Once upon a time.*\.$' story.txt

step "the bench"
cd "$work/package"
"${CC:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror bench/baseline.c -I"$prefix/include" -L"$prefix/lib" \
  -lqinfer -Wl,-rpath,"$prefix/lib" -o "$work/baseline"
node bench/bench.mjs "$work/baseline" "$checkout/examples/models/tiny-stories" "$runs"
echo "node: all passed"
