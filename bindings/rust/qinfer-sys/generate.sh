#!/bin/sh
# Makes src/bindings.rs, the declarations of qinfer.h, and src/grammar.rs, those of qinfer_grammar.h, with bindgen:
#   generate.sh            writes the files
#   generate.sh --check    writes nothing, and fails if a file is not what bindgen makes of its header
# Needs bindgen 0.72.1 (cargo install bindgen-cli --version 0.72.1 --locked), libclang and rustfmt. $BINDGEN names
# another program than the bindgen of the search path.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../../include
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# declarations HEADER FLAG...: what bindgen makes of a header, in $made.
declarations() {
  header=$1
  shift
  # The types of anonymous enumerations have numbers that change when one is added; their constants become i32 and u32.
  "${BINDGEN:-bindgen}" "$include/qinfer/$header" "$@" --blocklist-item 'QINFER_(GRAMMAR_)?H|QINFER_API' \
    --rust-target 1.85 --rust-edition 2021 --use-core --with-derive-default --no-prepend-enum-name \
    --merge-extern-blocks --disable-header-comment \
    --raw-line "//! The declarations of $header, made out of it by generate.sh. Do not edit." \
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
      }' >"$made"
}

# keep FILE: it becomes what was made, or is compared with that.
keep() {
  rustfmt --edition 2021 "$made"
  if [ "$check" = --check ]; then
    diff -u "$here/src/$1" "$made"
  else
    cp "$made" "$here/src/$1"
  fi
}

check=${1:-}
declarations qinfer.h --allowlist-item 'qinfer_.*|QINFER_.*'
keep bindings.rs
declarations qinfer_grammar.h --allowlist-file '.*/qinfer_grammar\.h' --no-recursive-allowlist
sed -i '/^#!\[allow/a use crate::bindings::*;' "$made"
keep grammar.rs
