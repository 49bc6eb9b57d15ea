#!/usr/bin/env bash
# No instruction is reachable on a CPU without it: on an emulated Haswell, which has AVX2 and no AVX-512, and an emulated
# Nehalem, which has neither, and which stop the process at the first unknown instruction, the library chooses the right
# kernel set, refuses the others by name, and tells the story that it tells here; and models that together have every
# operation equal transformers, with weights of every type and encoding.
# usage: check_old_cpu.sh QEMU CLI FOLDER_OF_TEST_PROGRAMS MODEL
set -u
qemu=$1 cli=$2 programs=$3 model=$4
command -v "$qemu" >/dev/null || { echo "skipped: machine: no qemu-x86_64 (package qemu-user)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
say() { echo "FAILED: $*"; failed=1; }
# on CPU COMMAND...
on() { "$qemu" -cpu "$@" 2>&1 | grep -v '^qemu-x86_64: warning'; return "${PIPESTATUS[0]}"; }

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
check Haswell avx2_int16 avx512 avx512_int16 avx512_fp16 avx512_bf16 amx
check Nehalem reference avx2 avx2_int16 avx512 avx512_int16 avx512_fp16 avx512_bf16 amx
# tests CPU FOLDER TEST: a test of Catch2, which must run and pass there.
tests() {
  on "$1" "$programs/qinfer_tests_$2" "$3" >"$work/out" ||
    say "\"$3\" failed on an emulated $1: $(tail -n 20 "$work/out")"
  grep -q '^All tests passed ([0-9]* assertion' "$work/out" || say "\"$3\" did not run on an emulated $1"
}
for cpu in Haswell Nehalem; do
  tests $cpu engine "a few models equal Hugging Face transformers"
done
tests Haswell kernels "a few linear layers with quantised weights of every encoding"
tests Haswell kernels "what comes after quantised sums with products of integers by AVX2"
tests Haswell source "a packed model gives the bits of its directory"
exit $failed
