#!/usr/bin/env bash
# What the library shows and what it refers to: only the C ABI is exported, nothing in it can end the process, print,
# read the environment or install a signal handler, and nothing runs when it is loaded.
# usage: check_symbols.sh LIBQINFER_SO LIBQINFER_A EXPORTED_SYMBOLS_TXT
set -u
so=$1 archive=$2 expected=$3
failed=0
say() { echo "FAILED: $*"; failed=1; }

exported=$(nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort)
diff <(echo "$exported") <(sort "$expected") || say "the exports of $so differ from $expected"

nodes=$(readelf -W --dyn-syms "$so" | awk '$7 != "UND" && $8 ~ /@@/ {sub("@@", " ", $8); print $8}')
[ "$(wc -l <<<"$nodes")" -gt 50 ] || say "only $(wc -l <<<"$nodes") symbols have a node"
awk '$2 != "QINFER_0.2"' <<<"$nodes" | grep . && say "symbols outside the node of this release"

static_exported=$(nm -g --defined-only "$archive" | awk 'NF == 3 {print $3}' | sort -u)
diff <(echo "$static_exported") <(sort "$expected") || say "the global symbols of $archive differ from $expected"

banned='abort|exit|_exit|_Exit|quick_exit|__assert_fail|printf|fprintf|vprintf|vfprintf|__printf_chk|__fprintf_chk|puts|fputs|putchar|fwrite|stdout|stderr|getenv|secure_getenv|setenv|signal|sigaction|raise|setlocale|uselocale|strerror|strerror_r|__xpg_strerror_r|system|_ZSt4cout|_ZSt4cerr|_ZSt4clog|_ZSt9terminatev|atexit|__cxa_atexit'
used=$(nm -u "$archive" | awk '/ U / {print $2}' | sed 's/@.*//' | sort -u | grep -xE "$banned") && say "our objects refer to: $used"

# crtbegin's frame_dummy is the one entry that every shared object has; a constructor of ours would be a second one.
bytes=$(readelf -SW "$so" | sed -n 's/.* \.init_array  *INIT_ARRAY  *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')
[ $((16#${bytes:-0} / 8)) -le 1 ] || say ".init_array of $so has $((16#$bytes / 8)) entries"
readelf -SW "$archive" | grep -qE '\.init_array|\.ctors|\.fini_array' && say "the static library has constructors or destructors"

exit $failed
