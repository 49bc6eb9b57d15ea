#!/usr/bin/env bash
# The header through the parsers of other languages, nothing cut or changed by hand: Zig takes it as it is, cffi after
# `cc -E -P -DQINFER_PLAIN_C`, and calls the library with it. (cgo and bindgen take it in bindings/go and bindings/rust,
# pycparser in bindings/python.)
# usage: check_parsers.sh PYTHON LIBQINFER_SO SOURCE_DIR, PYTHON having cffi and ziglang
set -eu
python=$1 so=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
wanted=$(grep -c '^qinfer_' "$source/tests/abi/exported_symbols.txt")

ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig" \
  "$python" -m ziglang translate-c -I"$source/include" -lc "$source/include/qinfer/qinfer.h" >"$work/qinfer.zig"
found=$(grep -c 'pub extern fn qinfer_' "$work/qinfer.zig")
[ "$found" = "$wanted" ] || fail "Zig found $found functions of $wanted"
grep -q 'pub const struct_qinfer_generate_options = extern struct' "$work/qinfer.zig" || fail "Zig found no struct of options"
echo "Zig: $found functions"

cc -E -P -DQINFER_PLAIN_C "$source/include/qinfer/qinfer.h" >"$work/plain.h"
"$python" - "$work/plain.h" "$so" "$source" "$wanted" <<'EOP'
import sys
import cffi
header, so, source, wanted = sys.argv[1:]
ffi = cffi.FFI()
ffi.cdef(open(header).read())
lib = ffi.dlopen(so)
names = [name for name in dir(lib) if name.startswith("qinfer_")]
assert len(names) == int(wanted), f"cffi found {len(names)} functions of {wanted}"
for name in names:
    getattr(lib, name)
error, out = ffi.new("qinfer_error *"), ffi.new("qinfer_model **")
assert lib.qinfer_model_load(ffi.NULL, b"no/such/model", ffi.NULL, out, error) == lib.QINFER_E_NOT_FOUND
assert b"no/such/model" in ffi.string(error.message)
model = (source + "/examples/models/tiny-stories").encode()
assert lib.qinfer_model_load(ffi.NULL, model, ffi.NULL, out, error) == lib.QINFER_OK, ffi.string(error.message)
info = ffi.new("qinfer_model_info *", {"struct_size": ffi.sizeof("qinfer_model_info")})
assert lib.qinfer_model_get_info(out[0], info, error) == 0 and info.n_vocab == 1024
lib.qinfer_model_free(out[0])
print(f"cffi: {len(names)} functions")
EOP
