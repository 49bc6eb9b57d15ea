#!/usr/bin/env bash
# Each program of examples/ is compiled as strict C99, or C++17, with warnings as errors, run in an empty folder with the
# model that ships here, and must print what it is known to print: every line of its list below is an extended regular
# expression for a line of its output, in this order. A program without a list fails. One that has a default for its
# model runs without arguments in the checkout, too.
# json_schema.c and grammar.cpp need libqinfer_grammar; where that was not built they are compiled alone, and the test is
# skipped if all else is right.
# usage: check_examples.sh SHARED_LIBRARY SOURCE_DIR [GRAMMAR_LIBRARY]
set -u
library=$1 source=$(cd "$2" && pwd) grammar=${3:-}
model=$source/examples/models/tiny-stories
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
say() { echo "FAILED: $*"; failed=1; }

mkdir "$work/empty"
c_flags=(-std=c99 -Wall -Wextra -pedantic -Werror)
cpp_flags=(-std=c++17 -Wall -Wextra -pedantic -Wshadow -Wconversion -Wold-style-cast -Werror)

# compile PROGRAM ARGUMENT...
compile() {
  local program=$source/examples/$1.c compiler=(cc "${c_flags[@]}")
  [ -e "$program" ] || program=${program}pp compiler=(c++ "${cpp_flags[@]}")
  shift
  "${compiler[@]}" -I"$source/include" "$program" "$@" >"$work/log" 2>&1 ||
    { say "$program does not compile: $(cat "$work/log")"; return 1; }
}

# run PROGRAM ARGUMENT... <<lines that must match
run() {
  local name=$1 line expected n=0
  shift
  checked[$name]=1
  mapfile -t expected
  local libraries=(-L"$(dirname "$library")" -lqinfer)
  case $name in json_schema | grammar) libraries+=(-L"$(dirname "$grammar")" -lqinfer_grammar) ;; esac
  compile "$name" -pthread "${libraries[@]}" -lm -Wl,-rpath,"$(dirname "$library")" -o "$work/$name" || return
  (cd "$work/empty" && timeout 120 "$work/$name" "$@") </dev/null >"$work/out" 2>"$work/err" ||
    say "$name: exit status $?: $(cat "$work/err")"
  while IFS= read -r line || [ -n "$line" ]; do
    [ "$n" -lt ${#expected[@]} ] && [[ $line =~ ${expected[n]} ]] && n=$((n + 1))
  done <"$work/out"
  [ "$n" -eq ${#expected[@]} ] && [ "$n" -gt 0 ] || say "$name: no line \"${expected[n]:-}\" in: $(cat "$work/out")"
  [ -z "$(ls "$work/empty")" ] || say "$name leaves files where it runs"
  grep -q 'argc > 1 ? argv\[1\] : "' "$source/examples/$name".c* || return
  (cd "$source" && timeout 120 "$work/$name") </dev/null >"$work/default" 2>"$work/err" && [ -s "$work/default" ] ||
    say "$name without arguments, in the checkout: exit status $?: $(cat "$work/err")"
}

declare -A checked
run story "$model" <<'END'
^, there was a little girl named Lily\.
END
run minimal "$model" "Once upon a time" <<'END'
^, there was a little girl named Lily\.
END
run memory "$model" <<'END'
^([0-9]+) bytes, of which a cache has 393216$
^QINFER_E_NO_MEMORY: .*memory_budget_bytes is 1048576
^[0-9]+ bytes from the allocator$
END
planned=$(sed -n '1s/ .*//p' "$work/out") taken=$(sed -n '$s/ .*//p' "$work/out")
[ "$planned" = "$taken" ] || say "memory: planned $planned bytes, took $taken"
run threads "$model" <<'END'
^Once upon a time: 16 new tokens$
^One sunny day: 16 new tokens$
END
run scheduler "$model" <<'END'
^Once upon a time, there was a little girl named
^One sunny day, [a-z]+
END
run errors "$model" <<'END'
^QINFER_E_NOT_FOUND \(2\): no/such/model
^QINFER_E_INVALID_ARGUMENT \(1\): token 1073741824
^QINFER_E_KV_FULL \(0\): .* 0 of 1 blocks free
^evaluated: 0 pending$
END
run fork "$model" <<'END'
^ [a-z]+
^\(KV blocks: [1-9][0-9]* bytes shared, [1-9][0-9]* its own\)$
^ [a-z]+
^\(KV blocks: [1-9][0-9]* bytes shared, [1-9][0-9]* its own\)$
^ [a-z]+
^\(KV blocks: [1-9][0-9]* bytes shared, [1-9][0-9]* its own\)$
END
run batch "$model" <<'END'
^One sunny day, Lily was playing with her
^Once upon a time, there was a little girl named Lily\. She was a very kind girl
^Once upon a time, there was a little girl named Lily\. She was a very kind girl
END
run snapshot "$model" "$work/session" <<'END'
^4 tokens loaded, then 16 more: the same$
END
run rerank "$model" "Where is the cat?" "The cat is by the house." "Crash!" <<'END'
^0\.[0-9]{3} The cat is by the house\.$
^0\.[0-9]{3} Crash!$
END
run embeddings "$model" "The cat sat by the house." "The cat sat by the tree." "Crash!" <<'END'
^1\.000 The cat sat by the house\.$
^0\.[5-9][0-9]* The cat sat by the tree\.$
^-?0\.[0-4][0-9]* Crash!$
END
run logprobs "$model" <<'END'
^prompt: " there" -0\.1[0-9]{2}$
^perplexity 5\.[67][0-9]{2}$
^drawn: ".*" -[0-9.]+ of( ".*" -[0-9.]+){3}$
END
# transformers gives 5.639 for this text, and what is printed for each token makes it.
awk '$1 == "prompt:" { sum += $NF; ++n } $1 == "perplexity" { off = exp(-sum / n) - $2 }
  END { exit n != 19 || off * off > 1e-4 }' "$work/out" || say "logprobs: another perplexity than that of its tokens"
run kernel_sets "$model" <<'END'
^reference: needs "", has f32 f16 bf16
^  [0-9a-f]{16}, 2 threads and cut: the same$
^  [0-9a-f]{16} under QINFER_RUNTIME_EXACT$
END
[ "$(grep -c 'runs where none is named' "$work/out")" -eq 1 ] || say "kernel_sets: not one default: $(cat "$work/out")"
run packing "$model" "$work/packed" <<'END'
^[0-9.]+ ms, weights: [0-9]+ bytes mapped, [0-9]+ private$
^[0-9.]+ ms, weights: [1-9][0-9]{6} bytes mapped, 0 private$
^the same logits$
END
run limits "$model" <<'END'
^steps: QINFER_E_UNSUPPORTED: .* more than 20 steps
^prompt: QINFER_E_CONTEXT_FULL: .* at most 12 tokens, 21 more
^answer: ended at 4 tokens$
^time: QINFER_E_CANCELLED: 
END
run own_sampler "$model" <<'END'
^, there was a little girl named Lily\.
END
grep -qi b "$work/out" && say "own_sampler: a letter b in: $(cat "$work/out")"
run logits_hook "$model" <<'END'
^, there was a little girl named Lily\.
^\(40 tokens drawn\)$
END
head -n -1 "$work/out" | grep -qi b && say "logits_hook: a letter b in: $(cat "$work/out")"
run host_files "$model" <<'END'
^[1-9][0-9]{5,} bytes of weights read through callbacks$
END
run cancel "$model" <<'END'
^cancelled after 5 tokens$
^then 20 more$
END
run stream "$model" <<'END'
^, there was a little girl named Lily\. .* with her mom\.$
^\([1-9][0-9]* bytes, [1-9][0-9]* tokens, ended by: stop text\)$
END
run conversation "$source/examples/models/tiny-chat" "[]" "Hello!" "What is the capital of France?" <<'END'
^Hello! What can I do for you\?$
^\(0 tokens of the prompt were there\)$
^The capital of France is Paris\.$
^\(23 tokens of the prompt were there\)$
END
run chat_stream "$source/examples/models/tiny-chat" \
  '{"messages":[{"role":"user","content":"Hello!"}],"stream":true,"temperature":0,"stop":" can"}' <<'END'
^data: \{"id":"chatcmpl-1","object":"chat\.completion\.chunk",.*"delta":\{"role":"assistant","content":""}
^data: .*"delta":\{"content":"[^"]+"},"logprobs":null,"finish_reason":null}]}$
^data: .*"delta":\{},"logprobs":null,"finish_reason":"stop"}]}$
^data: \[DONE]$
END
run chat "$source/examples/models/tiny-chat" "Hello!" "What is the weather in Lisbon?" <<'END'
^Hello! What can I do for you\?$
^\[call of get_weather \{"city": "Lisbon"\}\]$
^It is windy in Lisbon, with 17 degrees\.$
^[A-Z][a-z]*\.\.\. \(8 messages, the last is "[A-Z][a-z]*"\)$
END
if [ -n "$grammar" ]; then
  run grammar "$model" <<'END'
^\{
^(yes|no), [a-z]{3,8}!$
^I am [1-9]\.$
^QINFER_E_UNSUPPORTED: .*uniqueItems
END
  python3 -c 'import json, sys; d = json.loads(sys.stdin.read().rsplit("}", 1)[0] + "}"); sys.exit(len(d["name"]) > 12 or d["age"] not in (4, 5))' \
    <"$work/out" || say "grammar: no document of the schema: $(cat "$work/out")"
  schema='{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"enum":[4,5]}},
    "required":["name","age"],"additionalProperties":false}'
  run json_schema "$model" "$schema" <<'END'
^\{
END
  python3 -c 'import json, sys; d = json.load(sys.stdin); sys.exit(len(d["name"]) > 20 or d["age"] not in (4, 5))' \
    <"$work/out" || say "json_schema: no document of the schema: $(cat "$work/out")"
else
  for name in json_schema grammar; do
    compile $name -c -o "$work/o"
    checked[$name]=1
  done
fi

for program in "$source"/examples/*.c "$source"/examples/*.cpp; do
  name=$(basename "$program") name=${name%.c*}
  [ -n "${checked[$name]:-}" ] || say "$program is not run here"
  [ "$(wc -l <"$program")" -lt 60 ] || say "$program has 60 lines or more"
done
[ $failed -eq 0 ] || exit 1
echo "${#checked[@]} programs of examples/: ok"
[ -n "$grammar" ] || { echo "skipped: machine: json_schema.c and grammar.cpp need libqinfer_grammar"; exit 77; }
