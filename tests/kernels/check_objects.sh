#!/usr/bin/env bash
# No function of a file for some CPUs alone may be shared: the linker would be free to give it to everybody. Looks at all
# objects of kernels but the portable ones.
#
# And the loops over plain weights call nothing but each other, those over quantised weights nothing but the two
# functions that are meant to be called, decode() and add_decoded() and their like: where a compiler inlined no more, a
# set ran at the speed of scalar code.
# usage: check_objects.sh BUILD_DIR
set -u
failed=0 checked=0 loops=0 plain=0

# The calls of an object for x86, each with how often; other processors have none that this sees.
calls_of() { objdump -d -C --no-show-raw-insn "$1" | sed -n 's/^.*\tcall  *[0-9a-f]* <\(.*\)>$/\1/p' | sort | uniq -c; }

# What the members of F32Sums and its like call but each other.
calls_of_plain_loops() {
  objdump -d -C --no-show-raw-insn "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ { loop = /::(F32|F16|Bf16)Sums<[^<>]*>::/; if (loop) ++found }
    loop && /\tcall / && !/::(F32|F16|Bf16)Sums<[^<>]*>::/ { sub(/.*\tcall */, ""); print }
    END { exit found == 0 }'
}

while IFS= read -r object; do
  checked=$((checked + 1))
  symbols=$(nm -C "$object") || failed=1
  shared=$(grep -E ' [WVuw] ' <<<"$symbols")
  if calls=$(calls_of_plain_loops "$object"); then plain=$((plain + 1)); fi
  [ -z "$calls" ] || { echo "FAILED: loops over plain weights of $object call functions: $calls"; failed=1; }
  case $object in */quant_*.o)
    loops=$((loops + 1))
    calls=$(calls_of "$object" | grep -v -E '::(decode|add_decoded)[<(]')
    [ -z "$calls" ] || { echo "FAILED: loops of $object call functions: $calls"; failed=1; } ;;
  esac
  [ -z "$shared" ] || { echo "FAILED: $object has functions that the linker may share: $shared"; failed=1; }
done < <(find "$1"/CMakeFiles/qinfer_kernels_*.dir -name '*.o' ! -path '*qinfer_kernels_portable.dir*')
[ $checked -gt 5 ] || { echo "FAILED: only $checked objects were found"; failed=1; }
[ $loops -gt 2 ] || { echo "FAILED: only $loops objects of loops over quantised weights were found"; failed=1; }
[ $plain -gt 2 ] || { echo "FAILED: only $plain objects of loops over plain weights were found"; failed=1; }
[ $failed -eq 0 ] && echo "$checked objects share nothing, $loops and $plain of loops call nothing: ok"
exit $failed
