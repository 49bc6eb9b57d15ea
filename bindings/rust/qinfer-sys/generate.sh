#!/bin/sh
# Makes src/bindings.rs, the declarations of qinfer.h, with bindgen:
#   generate.sh            writes the file
#   generate.sh --check    writes nothing, and fails if the file is not what bindgen makes of the header
# Needs bindgen 0.72.1 (cargo install bindgen-cli --version 0.72.1 --locked), libclang and rustfmt. $BINDGEN names
# another program than the bindgen of the search path.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../../include
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# The types of anonymous enumerations have numbers that change when one is added; their constants become i32 and u32.
"${BINDGEN:-bindgen}" "$include/qinfer/qinfer.h" \
  --allowlist-item 'qinfer_.*|QINFER_.*' --blocklist-item 'QINFER_H|QINFER_API' \
  --rust-target 1.85 --rust-edition 2021 --use-core --with-derive-default --no-prepend-enum-name \
  --merge-extern-blocks --disable-header-comment \
  --raw-line '//! The declarations of qinfer.h, made out of it by generate.sh. Do not edit.' \
  --raw-line '#![allow(missing_docs, non_camel_case_types, rustdoc::all, clippy::all)]' \
  -- -I"$include" |
  awk '
    /^pub type _bindgen_ty_[0-9]+ = / { stands_for[$3] = $5 ~ /c_int;/ ? "i32" : "u32"; next }
    { lines[++n] = $0 }
    END {
      for (i = 1; i <= n; ++i) {
        line = lines[i]
        if (match(line, /: _bindgen_ty_[0-9]+ =/)) {
          name = substr(line, RSTART + 2, RLENGTH - 4)
          line = substr(line, 1, RSTART + 1) stands_for[name] substr(line, RSTART + RLENGTH - 2)
        }
        print line
      }
    }' | rustfmt --edition 2021 >"$made"

if [ "${1:-}" = --check ]; then
  diff -u "$here/src/bindings.rs" "$made"
else
  cp "$made" "$here/src/bindings.rs"
fi
