#!/usr/bin/env bash
# Arrows point down only: capi -> engine -> {kv, sampling, text, model} -> formats -> platform -> base, and everything
# may use the kernel contract and base. A kernel folder includes nothing of src but base/. Only capi/ says extern "C",
# only platform/ includes headers of the operating system, only kernels/<isa>/ holds intrinsics.
# usage: check_layers.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
say() { echo "FAILED: $*"; failed=1; }

# allowed LAYER FILES... : the folders of src that a layer may include
check() {
  local folder=$1 allowed=$2
  while IFS=: read -r file _ line; do
    target=$(echo "$line" | sed -n 's/.*#include "\([a-z_]*\)\/.*/\1/p')
    [ -z "$target" ] && continue
    [[ " $allowed " == *" $target "* ]] || say "$file includes $target/, allowed are: $allowed"
  done < <(grep -rn '#include "' "$folder" --include='*.h' --include='*.cpp')
}
check src/base "base"
check src/platform "platform base"
check src/formats "formats platform base"
check src/model "model formats platform base"
check src/text "text formats platform base"
check src/sampling "sampling base"
check src/kv "kv platform base"
check src/engine "engine kv sampling text model formats platform base"
check capi "engine text kernels model platform kv base"
check kernels "base common reference avx512 amx"

grep -rnE 'extern "C"' src kernels && say 'extern "C" outside capi/'
grep -rnE '#include <(sys/|linux/|unistd|fcntl|pthread|sched|signal|dirent|cpuid)' src capi kernels | grep -v '^src/platform/' && say "operating system headers outside src/platform/"
grep -rnE '_mm(256|512)?_[a-z]|__m(128|256|512)|_tile_|immintrin' src capi kernels/*.h kernels/*.cpp kernels/reference && say "intrinsics outside kernels/<isa>/"
grep -rnE '\b(getenv|abort|exit|printf|fprintf|puts)\(|std::(cout|cerr|clog)|#include <(iostream|cstdio|csignal)>' src capi kernels && say "a library must not print, exit or read the environment"

exit $failed
