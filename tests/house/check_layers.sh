#!/usr/bin/env bash
# What CONTRIBUTING.md says of the folders:
#   each folder includes only itself and what its row of the table there names;
#   only capi/ says extern "C", only platform/ includes headers of the operating system, and only folders of kernels/
#   hold intrinsics; the library does not print, exit or read the environment;
#   no file includes itself by way of others; no `default:` stands for members of an enumeration.
# usage: check_layers.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0 includes=0
say() { echo "FAILED: $*"; failed=1; }

# check FOLDER TARGETS: each #include "..." below FOLDER is of one of the targets: a folder, or a header that is named
# without one. A header beside the file may be included without its folder.
check() {
  local folder=$1 allowed=$2 file target
  while IFS=: read -r file _ target; do
    includes=$((includes + 1))
    target=$(sed -E 's/.*#include "([^"]*)".*/\1/' <<<"$target")
    [[ $target != */* && -e $(dirname "$file")/$target ]] && continue
    [[ " $allowed " == *" ${target%%/*} "* ]] || say "$file includes $target; $folder may include: $allowed"
  done < <(grep -rnE '^ *# *include "' "$folder" --include='*.h' --include='*.cpp' --include='*.inc')
}
checked=" "
while IFS='|' read -r _ folders allowed _; do
  for folder in ${folders//,/ }; do
    path=$folder allow="$folder ${allowed//,/ }"
    [ -d "src/$folder" ] && path=src/$folder
    [ "$folder" = kernels ] && allow+=" $(cd kernels && printf '%s ' *)" # folders and headers of kernels/ among themselves
    check "$path" "${allow//kernels\//}"
    checked+="$path "
  done
done < <(sed -n '/^| folder | may include |$/,/^$/p' CONTRIBUTING.md | sed '1,2d;/^$/d')
for folder in src/*/ capi/ kernels/; do
  [[ $checked == *" ${folder%/} "* ]] || say "CONTRIBUTING.md does not say what ${folder%/} may include"
done
[ $includes -gt 100 ] || say "only $includes includes were found"

# "FILE INCLUDED" for each include of a file of the project, which is next to the file or below one of the roots.
includes_of_files() {
  local file target root
  grep -rE '^ *# *include "' src capi kernels --include='*.h' --include='*.cpp' --include='*.inc' |
    sed -E 's/^([^:]*):[^"]*"([^"]*)".*/\1 \2/' | while read -r file target; do
    for root in "$(dirname "$file")" src kernels capi; do
      [ -e "$root/$target" ] && echo "$file $root/$target" && break
    done
  done
}
cycles=$(includes_of_files | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([^-].*[.][a-z]*\)$/\1/p' | tr '\n' ' ')
[ -z "$cycles" ] || say "these include each other in a circle: $cycles"

# Phases are numbers; kernels/ are compiled with -Wswitch-enum.
grep -rnE '\bdefault:' src/{base,engine,formats,kv,model,openai,reply,sampling,schedule,source} && say "a default: stands for members that an enumeration gets later: name them all, or compare"

grep -rnE 'extern "C"' src kernels && say 'extern "C" outside capi/'
grep -rnE '#include <(sys/|linux/|unistd|fcntl|pthread|sched|signal|dirent|cpuid)' src capi kernels | grep -v '^src/platform/' && say "operating system headers outside src/platform/"
grep -rnE '_mm(256|512)?_[a-z]|__m(128|256|512)|_tile_|immintrin' src capi kernels/*.h kernels/*.cpp kernels/common kernels/reference kernels/tiled && say "intrinsics outside kernels/<isa>/"
grep -rnE '\b(getenv|abort|exit|printf|fprintf|puts)\(|std::(cout|cerr|clog)|#include <(iostream|cstdio|csignal)>' src capi kernels && say "a library must not print, exit or read the environment"
grep -rnE 'std::(recursive_|shared_|timed_)*mutex|std::(lock_guard|unique_lock|scoped_lock|shared_lock|condition_variable)' src capi | grep -v '^src/base/mutex.h:' && say "locks are those of src/base/mutex.h, which clang checks"

exit $failed
