#!/usr/bin/env bash
# The promise of the ABI: the library's functions and types against those of libqinfer-0.2.abixml.
# usage: check_abi.sh LIBQINFER_SO SOURCE_DIR [--write]
#
# The library needs debug information of capi/, which builds with tests have. --write makes the baseline anew: of a release
# it is never written again; until then a change of it is part of the commit that changes the header.
set -eu
so=$1 source=$2 abi=$2/tests/abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
baseline=$abi/libqinfer-0.2.abixml

# ---- Functions and types. What the header does not define, such as what is in a handle, is no part of them.
command -v abidw >/dev/null || { echo "skipped: machine: abidw is not there (package abigail-tools)"; exit 77; }
public=(--headers-dir "$source/include/qinfer" --drop-private-types --no-elf-needed --no-corpus-path)
if [ "${3:-}" = --write ]; then
  abidw "${public[@]}" --exported-interfaces-only --no-comp-dir-path --no-show-locs "$so" | sed "s| path='[^']*'| path='capi'|" >"$baseline"
  exit 0
fi
[ -s "$baseline" ] || fail "the baseline $baseline is not there"
grep -q "<function-decl name='qinfer_generate'" "$baseline" || fail "the baseline has symbols without types"
status=0
abidiff "$baseline" "$so" >"$work/report" || status=$?
if [ "$status" -ne 0 ]; then
  cat "$work/report"
  [ $((status & 3)) -eq 0 ] || fail "abidiff did not work"
  fail "the ABI is not that of the baseline. What a release had must stay; what is new goes into the baseline: check_abi.sh --write"
fi
echo "functions and types: those of the baseline"
