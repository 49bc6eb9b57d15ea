#!/usr/bin/env bash
# What libqinfer_grammar.so shows: the functions of its header, and nothing of Rust's runtime. And libqinfer.so needs
# nothing of it.
# usage: check_grammar_symbols.sh LIBQINFER_GRAMMAR_SO HEADER LIBQINFER_SO
set -u
so=$1 header=$2 core=$3
failed=0
say() { echo "FAILED: $*"; failed=1; }
declared=$(grep -E '^QINFER_(API|STATUS)' "$header" | grep -oE 'qinfer_grammar_[a-z_]+\(' | tr -d '(' | sort)
[ "$(wc -l <<<"$declared")" -ge 15 ] || say "only $(wc -l <<<"$declared") functions were found in $header"
exported=$(nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort)
diff <(echo "$exported") <(echo "$declared") || say "the exports of $so differ from what $header declares"
readelf -d "$core" | grep -q grammar && say "$core needs the grammar library"
nm -D -u "$so" | grep -E ' qinfer_' && say "$so needs symbols of another library of qinfer"
exit $failed
