#!/usr/bin/env bash
# No AVX-512 instruction is reachable on a CPU without it: the library runs under an emulated Haswell, which stops the
# process at the first unknown instruction, and tells the story there that it tells here. And no function of an AVX-512
# or AMX file may be shared: the linker would be free to give it to everybody.
# usage: check_old_cpu.sh QEMU CLI TESTS MODEL OBJECT...
set -u
qemu=$1 cli=$2 tests=$3 model=$4
shift 4
command -v "$qemu" >/dev/null || { echo "skipped: machine: no qemu-x86_64 (package qemu-user)"; exit 77; }
failed=0
say() { echo "FAILED: $*"; failed=1; }
old() { "$qemu" -cpu Haswell "$@" 2>&1 | grep -v '^qemu-x86_64: warning'; return "${PIPESTATUS[0]}"; }

for object in "$@"; do
  shared=$(nm -C "$object" | grep -E ' [WVuw] ')
  [[ $object == */@(avx512|amx)/* && -n $shared ]] && say "$object has functions that the linker may share: $shared"
done
old "$cli" info "$model" | grep -q 'reference' || say "the emulated CPU did not get the reference kernels"
here=$("$cli" generate "$model" "Once upon a time" -n 12 --cpu-target reference 2>/dev/null)
there=$(old "$cli" generate "$model" "Once upon a time" -n 12 | head -n 1)
[[ -n $here && $there == "$here"* ]] || say "the story is \"$there\", expected \"$here\""
for target in avx512 avx512_fp16 avx512_bf16 amx; do
  old "$cli" generate "$model" x -n 1 --cpu-target $target | grep -q 'needs the CPU features' ||
    say "$target was not refused with the reason"
done
old "$tests" "logits equal Hugging Face transformers for every architecture" >/dev/null || say "the models' tests failed"
old "$tests" "a packed model gives the bits of its directory" >/dev/null || say "the packed models' tests failed"
exit $failed
