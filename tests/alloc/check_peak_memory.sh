#!/usr/bin/env bash
# The largest resident memory of whole runs stays with the plan: see alloc/peak.cpp.
# usage: check_peak_memory.sh PEAK_MEMORY
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" make "$work" || exit 1
failed=0
for mode in default read mapped contiguous quantised quantised-read; do
  "$1" run "$work" "$mode" || { echo "FAILED: $mode"; failed=1; }
done
exit $failed
