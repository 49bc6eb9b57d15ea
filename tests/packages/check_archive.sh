#!/usr/bin/env bash
# The archive that unpacks anywhere: what it needs of a system, and hosts of its shared and its static library, one of
# which has another utf8proc of its own.
# usage: check_archive.sh ARCHIVE SOURCE_DIR
set -eu
archive=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$archive" -C "$work"
prefix=$(echo "$work"/qinfer-*)
fail() { echo "FAILED: $*"; exit 1; }

for file in "$prefix"/lib/libqinfer*.so "$prefix/bin/qinfer" "$prefix/bin/qinfer-server"; do
  needs=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
  others=$(grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|libqinfer|libqinfer_grammar|ld-linux-x86-64)\.so' <<<"$needs" || true)
  [ -z "$others" ] || fail "$(basename "$file") needs $others"
done
nm -D --defined-only "$prefix/lib/libqinfer.so" | grep -q utf8proc && fail "libqinfer.so shows its utf8proc"
nm -g --defined-only "$prefix/lib/libqinfer.a" | grep -q ' utf8proc' && fail "libqinfer.a shows its utf8proc"

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
cc "$source/examples/story.c" $(pkg-config --cflags --libs qinfer) -Wl,-rpath,"$prefix/lib" -o "$work/shared"
(cd "$source" && "$work/shared") | grep -q "named Lily" || fail "the shared library tells no story"

# A host with functions of these names for itself: neither gets the other's.
cat >"$work/host.c" <<'C'
#include <qinfer/qinfer.h>
#include <stdio.h>
int utf8proc_called;
/* What the library's NFC calls. */
long utf8proc_decompose_char(void) { return ++utf8proc_called, -1; }
long utf8proc_normalize_utf32(void) { return ++utf8proc_called, -1; }
const void* utf8proc_get_property(void) {
  static const char none[64];
  return ++utf8proc_called, none;
}
int main(void) {
  qinfer_model* model;
  qinfer_error error;
  qinfer_token tokens[64];
  size_t n, m;
  if (qinfer_model_load(NULL, MODEL, NULL, &model, &error) ||
      qinfer_tokenize(model, "caf\xC3\xA9", SIZE_MAX, 0, tokens, 64, &n, &error) ||
      qinfer_tokenize(model, "cafe\xCC\x81", SIZE_MAX, 0, tokens, 64, &m, &error))
    return fprintf(stderr, "%s\n", error.message), 1;
  if (n != m) return fprintf(stderr, "the library did not normalise\n"), 1;
  qinfer_model_free(model);
  return utf8proc_called;
}
C
flags=(-DMODEL="\"$source/examples/models/tiny-stories\"") # whose tokenizer normalises to NFC
cc "${flags[@]}" "$work/host.c" $(pkg-config --cflags --libs qinfer) -Wl,-rpath,"$prefix/lib" -rdynamic -o "$work/host-shared"
cc "${flags[@]}" "$work/host.c" $(pkg-config --cflags qinfer) "$prefix/lib/libqinfer.a" -lstdc++ -lm -lpthread -o "$work/host-static"
for host in host-shared host-static; do
  "$work/$host" || fail "$host: the library called the host's utf8proc"
done
ldd "$work/host-static" | grep -E 'qinfer|utf8proc' && fail "the host of the static library needs a shared one"

"$prefix/bin/qinfer" generate "$source/examples/models/tiny-stories" "Once upon a time" -n 8 | grep -q Lily || fail "the command"
mv "$prefix" "$work/moved"
"$work/moved/bin/qinfer" --version >/dev/null || fail "the command, in a moved tree"
"$work/moved/bin/qinfer-server" --help >/dev/null || fail "the server, in a moved tree"
grep -q '^ExecStart=/usr/local/bin/qinfer-server ' "$work/moved/lib/systemd/system/qinfer-server.service" || fail "the service names another folder"
echo "the archive: shared and static hosts, a host's own utf8proc, the command, the server: ok"
