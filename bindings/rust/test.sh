#!/bin/sh
# Checks the Rust binding: format, clippy, documentation, tests (also that they call every public function), doc tests
# and examples.
#   test.sh PREFIX     against the qinfer that is installed at PREFIX (PREFIX/lib/pkgconfig/qinfer.pc)
#   test.sh --build    against one that cargo builds from this checkout (takes minutes)
# Builds in $QINFER_BINDINGS_WORK, by default a temporary folder that is removed; writes nothing into the checkout. Crates
# come from the registry that cargo is set up for, in the versions of Cargo.lock. Ends with 77 and one line
# "skipped: machine: ..." where the tools are missing. Where the installed qinfer has no libqinfer_grammar, what is of the
# feature grammar is left out, which one line says. Where bindgen is installed, the declarations are made again and compared.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..

if [ $# -ne 1 ]; then
  echo "usage: test.sh PREFIX | test.sh --build" >&2
  exit 2
fi
skip() {
  echo "skipped: machine: $1"
  exit 77
}
PATH=$PATH:${HOME:-}/.cargo/bin
export PATH
for tool in cargo rustfmt cargo-clippy cc pkg-config; do
  command -v "$tool" >/dev/null || skip "there is no $tool"
done
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/Cargo.toml")
found=$(cargo --version | cut -d' ' -f2)
[ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
  skip "cargo is $found, and the binding needs $wanted"

if [ "$1" = --build ]; then
  plain="--features build"
  features="--features build,grammar"
else
  plain=
  prefix=$(cd "$1" && pwd)
  PKG_CONFIG_PATH=$prefix/lib/pkgconfig:$prefix/lib64/pkgconfig
  export PKG_CONFIG_PATH
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir qinfer)
  export LD_LIBRARY_PATH
  features=
  if pkg-config --exists qinfer-grammar; then
    features="--features grammar"
  else
    echo "== without grammars: there is no libqinfer_grammar at $prefix"
  fi
fi
if [ -n "${QINFER_BINDINGS_WORK:-}" ]; then
  work=$QINFER_BINDINGS_WORK
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
CARGO_TARGET_DIR=$work/target
export CARGO_TARGET_DIR

run() {
  echo "== $*"
  "$@"
}
cd "$here"
run cargo fmt --all --check
# $plain and $features are no words or two.
lint() {
  run cargo clippy --locked --quiet --package qinfer --package qinfer-sys --all-targets "$@" -- -D warnings
}
lint $plain
[ "$plain" = "$features" ] || lint $features
RUSTDOCFLAGS='-D warnings' run cargo doc --locked --quiet --no-deps --package qinfer --package qinfer-sys $features
run cargo test --locked --quiet --package qinfer --package qinfer-sys $features
run "$here/uncalled.sh" $features

# The programs, in a folder without models.
cd "$work"
program() {
  cargo run --locked --quiet --manifest-path "$here/Cargo.toml" --package qinfer $plain --example "$@"
}
said=$(program quickstart)
case $said in
  ", there was a little girl named Lily."*) echo "== quickstart: $said" ;;
  *)
    echo "quickstart says: $said" >&2
    exit 1
    ;;
esac
said=$(program users)
case $said in
  "Once upon a time, there was a little girl named Lily."*"
One sunny day"*) echo "== users: two are answered" ;;
  *)
    echo "users says: $said" >&2
    exit 1
    ;;
esac
if readelf -d "$CARGO_TARGET_DIR/debug/examples/quickstart" | grep grammar; then
  echo "a program without grammars needs libqinfer_grammar" >&2
  exit 1
fi
said=$(program story -- "$root/examples/models/tiny-stories")
case $said in
  "Once upon a time"*" tokens, "*) echo "== story: tells one" ;;
  *)
    echo "story says: $said" >&2
    exit 1
    ;;
esac
if program story -- no/such/model 2>"$work/said"; then
  echo "story tells one without a model" >&2
  exit 1
fi
grep -q "QINFER_E_NOT_FOUND: .*no/such/model" "$work/said"

if [ "$plain" != "$features" ]; then
  plain=$features
  said=$(program json_schema)
  case $said in
    {*'"name"'*:*'"'*'"'*'"age"'*:*[45]*}) echo "== json_schema: $said" ;;
    *)
      echo "json_schema says: $said" >&2
      exit 1
      ;;
  esac
fi

if command -v "${BINDGEN:-bindgen}" >/dev/null; then
  run "$here/qinfer-sys/generate.sh" --check
else
  echo "== bindings.rs and grammar.rs were not made again: there is no bindgen"
fi
echo "== the Rust binding is fine"
