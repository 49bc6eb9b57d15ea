#!/usr/bin/env bash
# No function of a file for some CPUs alone may be shared: the linker would be free to give it to everybody. Looks at all
# objects of kernels but the portable ones.
# usage: check_objects.sh BUILD_DIR
set -u
failed=0 checked=0
while IFS= read -r object; do
  checked=$((checked + 1))
  symbols=$(nm -C "$object") || failed=1
  shared=$(grep -E ' [WVuw] ' <<<"$symbols")
  [ -z "$shared" ] || { echo "FAILED: $object has functions that the linker may share: $shared"; failed=1; }
done < <(find "$1"/CMakeFiles/qinfer_kernels_*.dir -name '*.o' ! -path '*qinfer_kernels_portable.dir*')
[ $checked -gt 5 ] || { echo "FAILED: only $checked objects were found"; failed=1; }
[ $failed -eq 0 ] && echo "$checked objects share nothing: ok"
exit $failed
