#!/usr/bin/env bash
# No instruction is reachable on a CPU without it: the library runs under an emulated Haswell, which has AVX2 and no
# AVX-512, and an emulated Nehalem, which has neither, and which stop the process at the first unknown instruction; it
# tells the stories there that it tells here. And no function of a file for some CPUs alone may be shared: the linker
# would be free to give it to everybody.
# usage: check_old_cpu.sh QEMU CLI TESTS MODEL OBJECT...
set -u
qemu=$1 cli=$2 tests=$3 model=$4
shift 4
command -v "$qemu" >/dev/null || { echo "skipped: machine: no qemu-x86_64 (package qemu-user)"; exit 77; }
failed=0
say() { echo "FAILED: $*"; failed=1; }
# on CPU COMMAND...
on() { "$qemu" -cpu "$@" 2>&1 | grep -v '^qemu-x86_64: warning'; return "${PIPESTATUS[0]}"; }

for object in "$@"; do
  [[ $object == */qinfer_kernels_portable.dir/* ]] && continue
  shared=$(nm -C "$object" | grep -E ' [WVuw] ')
  [ -z "$shared" ] || say "$object has functions that the linker may share: $shared"
done

# check CPU TARGET MISSING...: that CPU gets this kernel set, and refuses those that it has no instructions for.
check() {
  local cpu=$1 target=$2 missing here there
  shift 2
  on "$cpu" "$cli" info "$model" | grep -q "^kernel set  *$target$" || say "an emulated $cpu did not get $target"
  here=$("$cli" generate "$model" "Once upon a time" -n 12 --cpu-target "$target" 2>/dev/null)
  there=$(on "$cpu" "$cli" generate "$model" "Once upon a time" -n 12 | head -n 1)
  [[ -n $here && $there == "$here"* ]] || say "the story on $cpu is \"$there\", expected \"$here\""
  for missing in "$@"; do
    on "$cpu" "$cli" generate "$model" x -n 1 --cpu-target "$missing" | grep -q 'needs the CPU features' ||
      say "$missing was not refused with the reason on $cpu"
  done
}
check Haswell avx2 avx512 avx512_fp16 avx512_bf16 amx
check Nehalem reference avx2 avx512 avx512_fp16 avx512_bf16 amx
on Haswell "$tests" "logits equal Hugging Face transformers for every architecture" >/dev/null || say "the models' tests failed"
on Haswell "$tests" "a packed model gives the bits of its directory" >/dev/null || say "the packed models' tests failed"
exit $failed
