#!/usr/bin/env bash
# smoke.sh: runs every command of the qinfer program on a small model and checks exit status (0 done, 1 failed,
# 2 usage), that results go to stdout and everything else to stderr, and that Ctrl-C and a closed pipe end it cleanly.
#   bash tests/cli/smoke.sh PATH_TO_QINFER MODEL_DIRECTORY
# Ends with "N passed, N failed"; the exit status is 1 if any check failed.
set -u

if [ $# -ne 2 ]; then
  echo "usage: $0 PATH_TO_QINFER MODEL_DIRECTORY" >&2
  exit 2
fi
qinfer=$(realpath "$1")
model=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out
err=$work/err
passed=0
failed=0
status=0

pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  echo "FAILED: $1"
  echo "  exit status $status"
  head -c 600 "$out" | sed 's/^/  stdout: /'
  head -c 600 "$err" | sed 's/^/  stderr: /'
}
check() { # NAME CONDITION...
  local name=$1
  shift
  if "$@"; then pass; else fail "$name"; fi
}

# Runs qinfer with a time limit; the results are in $status, $out and $err.
run() {
  timeout 300 "$qinfer" "$@" </dev/null >"$out" 2>"$err"
  status=$?
}
# NAME STATUS ARGUMENT...: the status is as given; a failure says why in one line on stderr and nothing on stdout.
expect() {
  local name=$1 wanted=$2
  shift 2
  run "$@"
  check "$name: exit status $wanted" [ "$status" -eq "$wanted" ]
  if [ "$wanted" -ne 0 ]; then
    check "$name: one line on stderr" [ "$(grep -c '^qinfer: ' "$err")" -eq 1 -a "$(wc -l <"$err")" -eq 1 ]
    check "$name: nothing on stdout" [ ! -s "$out" ]
  fi
}
stdout_has() { grep -q -- "$1" "$out"; }
is_id_line() { [ "$(wc -l <"$1")" -eq 1 ] && grep -Eq '^[0-9]+(,[0-9]+)*$' "$1"; }
is_json_object() { [ "$(wc -l <"$out")" -eq 1 ] && grep -Eq '^\{.*\}$' "$out"; }

check_usage() {
  expect "no command" 0
  check "no command: the help" stdout_has "Usage"
  expect "unknown command" 2 frobnicate
  check "unknown command: the help of all" grep -q 'no command (see qinfer --help)' "$err"
  expect "a command with a typo" 2 genrate "$model" x
  check "a command with a typo: the nearest" grep -q '"genrate" is no command; did you mean generate?' "$err"
  expect "an option with a typo" 2 generate "$model" x --tmep 1
  check "an option with a typo: the nearest" grep -q '"--tmep" is no option of it; did you mean --temp?' "$err"
  check "an option with a typo: the command's help" grep -q 'see qinfer generate --help' "$err"
  expect "a command as another program has it" 2 run "$model"
  check "a command as another program has it: what it is here" grep -q '"run" is no command; did you mean chat?' "$err"
  expect "an option as another program has it" 2 generate "$model" x --temperature 0.5
  check "an option as another program has it: what it is here" \
    grep -q '"--temperature" is no option of it; did you mean --temp?' "$err"
  expect "an option without a long name" 2 generate "$model" x --max-tokens 5
  check "an option without a long name: what it is here" grep -q 'did you mean -n?' "$err"
  expect "a typo of --help" 2 chat --hlep
  check "a typo of --help: the nearest" grep -q '"--hlep" is no option of it; did you mean --help?' "$err"
  expect "info without a model" 2 info
  expect "unknown option" 2 info "$model" --frobnicate
  expect "negative number" 2 generate "$model" x -n -5
  expect "absurd number" 2 plan "$model" --context 99999999999999999999
  expect "not a number" 2 generate "$model" x --temp warm
  expect "too many guesses" 2 generate "$model" x --draft 17
  expect "not finite" 2 generate "$model" x --temp nan
  expect "an unknown sampler" 2 generate "$model" x --samplers "top_k;frob"
  check "an unknown sampler: its name and those there are" grep -q '"frob" is not one of penalties, dry' "$err"
  expect "a sampler twice" 2 generate "$model" x --samplers "top_k;top_k"
  expect "unknown KV type" 2 plan "$model" --kv f8
  expect "bad ids" 2 logits "$model" --ids 1,x
  expect "negative id" 2 tokenize "$model" --decode -1
  expect "no ids" 2 logits "$model" --ids ""
  expect "text and --decode" 2 tokenize "$model" text --decode 1
  expect "bench of nothing" 2 bench "$model" -p 0 -n 0
  expect "help" 0 --help
  check "help: on stdout" stdout_has "Usage"
  expect "help as a command" 0 help
  check "help as a command: on stdout" stdout_has "Usage"
  expect "help with a command" 0 help generate
  check "help with a command: on stdout" stdout_has "PROMPT"
  expect "help of a command" 0 generate --help
  check "help of a command: on stdout" stdout_has "PROMPT"
  expect "version" 0 --version
}

check_failures() {
  local command
  for command in info plan bench; do
    expect "$command of a missing model" 1 "$command" "$work/none"
  done
  expect "generate with a missing model" 1 generate "$work/none" x
  expect "tokenize with a missing model" 1 tokenize "$work/none" x
  expect "logits of a missing model" 1 logits "$work/none" --ids 1
  expect "an id past the vocabulary" 1 logits "$model" --ids 2147483647
  expect "unknown kernel set" 1 generate "$model" x --cpu-target abacus
  expect "an output file that cannot be" 1 logits "$model" --ids 1 --out "$work/none/x.npy"
  timeout 300 "$qinfer" generate "$model" x -n 4 >/dev/full 2>"$err"
  status=$?
  check "full disk: exit status 1" [ "$status" -eq 1 ]
}

json_field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$out"; }

check_plan_map() {
  expect "plan --map" 0 plan "$model" --map --context 64
  check "plan --map: buffers" stdout_has ' attn_out '
  expect "plan --map --json" 0 plan "$model" --map --json
  check "plan --map --json: an object" is_json_object
  expect "plan --fit" 0 plan "$model" --fit 30000000
  check "plan --fit: a context" stdout_has '^longest context  *[0-9]* tokens x 1 sessions'
  expect "plan --fit with a unit" 0 plan "$model" --fit 30MB
  check "plan --fit with a unit: the same context" stdout_has '^longest context  *[0-9]* tokens x 1 sessions'
  expect "plan --fit: no unit" 2 plan "$model" --fit 30XB
  expect "plan --fit: too little" 1 plan "$model" --fit 1000
  expect "plan --map and --fit" 2 plan "$model" --map --fit 30000000
  expect "plan --split" 0 plan "$model" --split 3
  check "plan --split: all layers" stdout_has '^stage 3  *layers [0-9]* to 5, '
  expect "plan --split of machines" 0 plan "$model" --split 60MB 20MB --json
  check "plan --split --json: an object" is_json_object
  expect "plan --split: too little" 1 plan "$model" --split 30MB 1000
  expect "plan --split: one machine" 2 plan "$model" --split 30GB
  expect "plan --split: too many" 2 plan "$model" --split 7
}

check_info_and_plan() {
  expect "info" 0 info "$model"
  check "info: vocabulary" stdout_has '^vocabulary'
  check "info: kernel set" stdout_has '^kernel set'
  check "info: nothing on stderr" [ ! -s "$err" ]
  expect "plan" 0 plan "$model"
  check "plan: total" stdout_has '^total'
  expect "plan of sessions" 0 plan "$model" --context 64 --sessions 3 --block-tokens 32 --kv f32 --threads 1 --batch 16
  check "plan of sessions: 3 of 64 tokens" stdout_has '^for  *3 sessions of 64 tokens'
  expect "plan exact" 0 plan "$model" --exact --cpu-target reference
  expect "plan --json" 0 plan "$model" --context 64 --json
  check "plan --json: an object" is_json_object
  check "plan --json: a cache of one session" [ "$(json_field kv_cache_bytes)" = "$(json_field kv_per_session)" ]
  check_plan_map
}

check_tokenize() {
  local ids
  expect "tokenize" 0 tokenize "$model" "Hello there"
  check "tokenize: ids, one line" is_id_line "$out"
  check "tokenize: nothing on stderr" [ ! -s "$err" ]
  ids=$(cat "$out")
  printf 'Hello there' | "$qinfer" tokenize "$model" >"$work/piped" 2>"$err"
  check "tokenize: the same from stdin" [ "$(cat "$work/piped")" = "$ids" ]
  expect "tokenize --decode" 0 tokenize "$model" --decode "$ids"
  check "tokenize --decode: gives the text back" grep -Eq '^ ?Hello there$' "$out"
  expect "tokenize nothing" 0 tokenize "$model" ""
  check "tokenize nothing: an empty line" [ "$(wc -c <"$out")" -eq 1 ]
  expect "tokenize --special" 0 tokenize "$model" "Hello" --special --no-parse-special
  check "tokenize --special: ids, one line" is_id_line "$out"
}

check_logits() {
  local vocabulary size
  expect "logits" 0 logits "$model" --ids 1,2,3
  check "logits: a line per row" [ "$(wc -l <"$out")" -eq 3 ]
  expect "logits --out" 0 logits "$model" --ids 1,2,3 --out "$work/l.npy" --exact
  check "logits --out: nothing on stdout" [ ! -s "$out" ]
  check "logits --out: magic" [ "$(head -c 6 "$work/l.npy" | tail -c 5)" = NUMPY ]
  vocabulary=$(head -c 128 "$work/l.npy" | tr -d '\0' | grep -ao "(3, [0-9]*)" | grep -o '[0-9]*)' | tr -d ')')
  size=$(wc -c <"$work/l.npy")
  check "logits --out: size" [ "$size" -eq $((128 + 3 * vocabulary * 4)) ]
}

check_generate() {
  local first
  expect "generate" 0 generate "$model" "Once upon a time" -n 8
  check "generate: begins with the prompt" grep -q '^Once upon a time' "$out"
  check "generate: statistics on stderr" grep -q 'tokens/s' "$err"
  first=$(cat "$out")
  expect "generate again" 0 generate "$model" "Once upon a time" -n 8 --threads 1
  check "generate: the same text on one thread" [ "$(cat "$out")" = "$first" ]
  expect "generate with a mixture of experts" 0 generate "$model-moe" "Once upon a time" -n 12
  check "generate: a mixture tells a story, too" grep -q '^Once upon a time, there was' "$out"
  expect "generate --ids" 0 generate "$model" "Once" -n 4 --ids --exact --kv f32
  tail -n 1 "$out" >"$work/ids"
  check "generate --ids: ids on the last line" is_id_line "$work/ids"
  check "generate --ids: not on stderr" [ "$(grep -cFx "$(cat "$work/ids")" "$err")" -eq 0 ]
  if "$qinfer" info "$model" | grep -q '^begin token *none'; then
    expect "generate without a begin token" 1 generate "$model" "" -n 4
  else
    expect "generate from the begin token" 0 generate "$model" "" -n 4 --cpu-target reference
  fi
  expect "generate sampled" 0 generate "$model" "Once" -n 8 --temp 0.8 --top-k 40 --top-p 0.9 --min-p 0.05 \
    --repeat-penalty 1.1 --seed 7
  first=$(cat "$out")
  run generate "$model" "Once" -n 8 --temp 0.8 --top-k 40 --top-p 0.9 --min-p 0.05 --repeat-penalty 1.1 --seed 7
  check "generate sampled: the same with the same seed" [ "$(cat "$out")" = "$first" ]
  expect "generate by llama.cpp's options" 0 generate "$model" "Once" -n 8 --temp 0.8 --typical 0.9 --top-nsigma -1 \
    --dynatemp-range 0.2 --dynatemp-exp 1.5 --xtc-probability 0.1 --xtc-threshold 0.2 --dry-multiplier 0.8 \
    --dry-base 1.6 --dry-allowed-length 3 --dry-penalty-last-n -1 --dry-sequence-breaker : --dry-sequence-breaker ";" \
    --samplers "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
  expect "generate with mirostat" 0 generate "$model" "Once" -n 8 --temp 0.8 --mirostat 2 --mirostat-lr 0.2 \
    --mirostat-ent 4 --dry-multiplier 1 --dry-sequence-breaker none --dry-penalty-last-n 0
  run generate "$model" "Once" -n 30 --repeat-penalty 2 --repeat-last-n 0
  first=$(cat "$out")
  run generate "$model" "Once" -n 30
  check "generate: penalties that look at no token are off" [ "$(cat "$out")" = "$first" ]
  run generate "$model" "Once" -n 30 --repeat-penalty 2 --repeat-last-n 20
  check "generate: penalties that look at some tokens" [ "$(cat "$out")" != "$first" ]
  expect "generate with mirostat 1" 1 generate "$model" "Once" -n 8 --temp 0.8 --mirostat 1
  check "generate with mirostat 1: which there is" grep -q 'mirostat is 1, expected 0 or 2' "$err"
  expect "generate to the end of the context" 0 generate "$model" "Once" -n 0 --context 24
  expect "generate with stop texts" 0 generate "$model" --stop e --stop "[a,o]" "Once" -n 16
  expect "a prompt longer than the context" 1 generate "$model" "Once upon a time there was a house" --context 2
}

# Interrupts a generation when its first output arrives. A fast machine may have finished by then: tried a few times.
check_interrupt() {
  local try pid first
  for try in 1 2 3 4 5 6 7 8; do
    rm -f "$work/fifo"
    mkfifo "$work/fifo"
    # A shell without job control starts background jobs with SIGINT ignored; env undoes that.
    env --default-signal=INT "$qinfer" generate "$model" "Once upon a time" -n 0 --threads 1 --cpu-target reference \
      --temp 1 --seed "$try" >"$work/fifo" 2>"$err" &
    pid=$!
    exec 9<"$work/fifo"
    IFS= read -r -N 1 -t 60 first <&9
    kill -INT "$pid" 2>/dev/null
    timeout 60 cat <&9 >"$out"
    wait "$pid"
    status=$?
    exec 9<&-
    [ "$status" -ne 0 ] && break
  done
  check "interrupt: exit status 1" [ "$status" -eq 1 ]
  check "interrupt: says cancelled" grep -q '^qinfer: cancelled$' "$err"
  check "interrupt: statistics" grep -q ' new [0-9]* token' "$err"
}

check_pipe() {
  timeout 60 "$qinfer" generate "$model" "Once upon a time" -n 0 2>"$err" | head -c 4 >"$out"
  status=${PIPESTATUS[0]}
  check "closed pipe: does not hang" [ "$status" -ne 124 ]
  check "closed pipe: text before the end" [ "$(cat "$out")" = Once ]
}

check_pack() {
  expect "pack" 0 pack "$model" "$work/packed"
  expect "generate from the directory" 0 generate "$model" "Once" -n 5 --ids
  cp "$out" "$work/ids"
  expect "generate from the packed file" 0 generate "$work/packed" "Once" -n 5 --ids
  check "packed: the same ids" cmp -s "$out" "$work/ids"
  expect "pack, quantised" 0 pack "$model" "$work/quantised" --weights q8_0
  check "quantised: an error for each matrix" grep -q "to q8_0, 8.5 bits each, relative RMS error" "$out"
  expect "generate from the quantised file" 0 generate "$work/quantised" "Once" -n 5
  expect "pack --gguf" 0 pack "$model" "$work/model.gguf" --gguf
  expect "generate from the GGUF file" 0 generate "$work/model.gguf" "Once" -n 5 --ids
  check "GGUF: the same ids" cmp -s "$out" "$work/ids"
  expect "pack of a packed file" 1 pack "$work/packed" "$work/again"
}

check_render() {
  echo '{"messages": [{"role": "user", "content": "Once <|endoftext|>"}]}' >"$work/chat.json"
  printf '%s' '<|endoftext|>{{ messages[0].content }}{{ "!" if add_generation_prompt }}{{ strftime_now("%Y") }}' >"$work/template"
  expect "render" 0 render "$model" "$work/chat.json" --template "$work/template" --now 2026-11-22
  check "render: the text, and nothing after it" [ "$(cat "$out")" = "<|endoftext|>Once <|endoftext|>2026" ]
  expect "render --generation-prompt" 0 render "$model" "$work/chat.json" --template "$work/template" --generation-prompt
  check "render: the prompt" grep -q '!2' "$out"
  expect "render --ids" 0 render "$model" "$work/chat.json" --template "$work/template" --now 2026-11-22 --ids
  cp "$out" "$work/rendered"
  expect "tokenize what was rendered" 0 tokenize "$model" "<|endoftext|>Once <|endoftext|>2026"
  check "render: content has no control tokens" [ "$(wc -c <"$work/rendered")" -gt "$(wc -c <"$out")" ]
  expect "render without a template" 1 render "$model" "$work/chat.json"
  check "render: says which option" grep -q "no chat template: give one by --template FILE" "$err"
  expect "render: no such file" 1 render "$model" "$work/none.json"
  expect "render: a bad date" 1 render "$model" "$work/chat.json" --template "$work/template" --now today
}

check_embed() {
  expect "embed" 0 embed "$model" "Once upon a time" "a cat"
  check "embed: a line for each text" [ "$(grep -c '^\[-\{0,1\}[0-9].*\]$' "$out")" -eq 2 ]
  expect "embed: an unknown pooling" 2 embed "$model" "Once" --pooling middle
  expect "embed: no text" 2 embed "$model"
  printf 'Once upon a time\r\na cat\n' >"$work/lines"
  expect "embed: words" 0 embed "$model" "Once upon a time" "a cat"
  cp "$out" "$work/words"
  expect "embed: lines" 0 embed "$model" --lines "$work/lines"
  check "embed: lines are texts" cmp "$out" "$work/words"
  expect "embed: a file" 0 embed "$model" --lines "$work/lines" --dims 8 --out "$work/vectors.npy"
  check "embed: its size" [ "$(wc -c <"$work/vectors.npy")" -eq $((128 + 2 * 8 * 4)) ]
  expect "embed: no such prompt" 1 embed "$model" --prompt query "Once"
  local long
  long=$(printf 'x%.0s' $(seq 2000))
  expect "embed: too long" 1 embed "$model" "$long"
  check "embed: says both numbers" grep -q "2000 tokens, at most 512" "$err"
  expect "embed: cut" 0 embed "$model" --truncate "$long"
  check "embed: says how much" grep -q "1488 tokens were cut off" "$err"
}

check_rerank() {
  local how=(--template-text "{query}? {document}" --yes Yes --no No)
  expect "rerank" 0 rerank "$model" Tom "a cat" "a dog" "a cat" "${how[@]}"
  check "rerank: a line for each document" [ "$(grep -cP '^0\.[0-9]{6}\t[0-2]\ta (cat|dog)$' "$out")" -eq 3 ]
  check "rerank: the best first" [ "$(cut -f 1 "$out" | sort -rn)" = "$(cut -f 1 "$out")" ]
  check "rerank: equal ones by index" [ "$(grep cat "$out" | cut -f 2 | tr '\n' ' ')" = "0 2 " ]
  expect "rerank: the best one" 0 rerank "$model" Tom "a cat" "a dog" --top 1 "${how[@]}"
  check "rerank: one line" [ "$(wc -l <"$out")" -eq 1 ]
  expect "rerank: files that do not say how" 1 rerank "$model" Tom "a cat"
}

# A mixture of experts: what a token needs of it, told by every command that counts.
check_experts() {
  local mixture
  mixture=$(dirname "$(realpath "$0")")/../fixtures/models/qwen3moe-f32
  expect "info of a mixture" 0 info "$mixture"
  check "info: parameters" stdout_has '^parameters  *46,352 '
  check "info: active parameters" stdout_has '^active  *27,152 .* for each token'
  check "info: experts" stdout_has '^experts  *8, of which 3 for each token, in 2 of 2 layers; width 20'
  check "info: active bytes" stdout_has '^weights active  *[0-9,]* B'
  expect "plan of a mixture's config.json" 0 plan "$mixture/config.json"
  check "plan: experts" stdout_has '^experts  *8, of which 3 '
  expect "plan --json of a mixture" 0 plan "$mixture" --json
  check "plan --json: active parameters" [ "$(json_field n_active_params)" = 27152 ]
  expect "bench of a mixture" 0 bench "$mixture" --read-mib 64 -p 8 -n 4 -r 1 -t 1
  check "bench: active parameters" stdout_has '27.2 k active: 3 of 8 experts'
  check "bench: experts read" stdout_has 'of each mixture 3.0 experts of 8,'
  check "bench: active layer parameters" stdout_has 'active layer parameters x 8 tokens'
  expect "bench --json of a mixture" 0 bench "$mixture" --read-mib 64 -p 0 -n 4 -r 1 -t 1 --sessions 4 --json
  check "bench --json of a mixture: an object" is_json_object
  check "bench --json: experts of a step" [ "$(json_field active)" = 3 ]
}

check_bench() {
  expect "bench" 0 bench "$model" --read-mib 64 -p 16 -n 4 -r 2 -t 1
  check "bench: prefill" stdout_has '^prefill 16 .*tokens/s'
  check "bench: decode" stdout_has '^decode 4 .*tokens/s'
  check "bench: the peak around samples" stdout_has 'peak was .*GFLOP/s'
  expect "bench --json" 0 bench "$model" --read-mib 64 -p 16 -n 4 -r 1 --json --exact --kv f32
  check "bench --json: an object" is_json_object
  expect "bench at a depth" 0 bench "$model" --read-mib 64 -p 0 -n 4 -r 1 -t 1 --depth 20 --sessions 3
  check "bench: sessions" stdout_has '^decode 4 x 3 at 20 .*tokens/s'
  expect "bench of all kernel sets" 0 bench "$model" --read-mib 64 -p 16 -n 4 -r 1 -t 1 --all-targets
  check "bench of all kernel sets: the portable one" stdout_has '^reference '
  check "bench of all kernel sets: which is chosen" stdout_has 'chosen for this model'
  expect "bench of all kernel sets and of one" 2 bench "$model" --all-targets --cpu-target reference
  expect "bench on more threads than CPUs" 2 bench "$model" -t 4000
  expect "bench of clients" 0 bench "$model" --clients 3 -p 20 -n 8 -r 2 -t 1
  check "bench of clients: together" stdout_has '^together .*tokens/s'
  check "bench of clients: times" stdout_has '^between tokens .*p99'
  expect "bench --json of clients" 0 bench "$model" --clients 3 -p 20 -n 8 -r 2 -t 1 --json
  check "bench --json of clients: an object" is_json_object
  expect "bench of clients and of sessions" 2 bench "$model" --clients 3 --sessions 2
  expect "bench of clients without a prompt" 2 bench "$model" --clients 3 -p 0
}

# Each answer is a text of the grammar; without libqinfer_grammar the options say so.
check_grammar() {
  local chat_model
  chat_model=$(dirname "$model")/tiny-chat
  expect "generate with two grammars" 2 generate "$model" x --regex a --lark b
  run generate "$model" Once --regex a -n 1
  if grep -q 'built without it' "$err"; then
    check "generate --regex without the library" [ "$status" -eq 1 ]
    return
  fi
  expect "generate --regex that is none" 1 generate "$model" "Once " --regex '(a'
  check "generate --regex that is none: in words" grep -q 'regex parse error: .*error: unclosed group' "$err"
  check "generate --regex that is none: no line ends in it" grep -qv '?' "$err"
  expect "generate --regex" 0 generate "$model" "Once " --regex '[a-c]{5}' --temp 2 -n 20
  check "generate --regex: five letters" grep -qxE 'Once [a-c]{5}' "$out"
  printf 'start: "hen" " hen"*\n' >"$work/hens.lark"
  expect "generate --lark" 0 generate "$model" "A " --lark "$work/hens.lark" -n 20
  check "generate --lark: hens" grep -qxE 'A hen( hen)*' "$out"
  printf '{"type":"object","properties":{"sum":{"type":"integer"},"sure":{"type":"boolean"}},%s}' \
    '"required":["sum","sure"],"additionalProperties":false' >"$work/schema.json"
  expect "chat --schema" 0 chat "$chat_model" "What is 3 + 4?" --schema "$work/schema.json"
  check "chat --schema: a document" grep -qxE '\{"sum":-?[0-9]+,"sure":(true|false)\}' <(tr -d '[:space:]' <"$out")
  printf '%s' '{{ messages[-1].content }}{% if add_generation_prompt %}<think>{% endif %}' >"$work/think.jinja"
  expect "chat --schema after reasoning" 0 chat "$chat_model" Hi --template "$work/think.jinja" \
    --schema "$work/schema.json" --max-think 5
  check "chat --schema after reasoning: the document alone" \
    grep -qxE '\{"sum":-?[0-9]+,"sure":(true|false)\}' <(tr -d '[:space:]' <"$out")
  expect "chat --schema inside of the reasoning" 0 chat "$chat_model" Hi --template "$work/think.jinja" \
    --schema "$work/schema.json" -n 3
  check "chat --schema inside of the reasoning: said" grep -q 'inside of its reasoning' "$err"
  check "chat --schema inside of the reasoning: no answer" [ ! -s "$out" ]
  expect "chat --schema --no-think" 0 chat "$chat_model" Hi --template "$work/think.jinja" \
    --schema "$work/schema.json" --no-think
  check "chat --schema --no-think: a document" \
    grep -qxE '\{"sum":-?[0-9]+,"sure":(true|false)\}' <(tr -d '[:space:]' <"$out")
  printf '{"not":{}}' >"$work/schema.json"
  expect "chat with a schema that is refused" 1 chat "$chat_model" x --schema "$work/schema.json"
  check "chat with a schema that is refused: the file and the keyword" grep -q 'schema.json: .*not' "$err"
  expect "chat with a missing schema" 1 chat "$chat_model" x --schema "$work/none"
}

check_chat() {
  local chat_model hub first command
  chat_model=$(dirname "$model")/tiny-chat
  expect "chat with a message" 0 chat "$chat_model" "What is the capital of France?" --greedy
  check "chat with a message: the answer alone on stdout" [ "$(cat "$out")" = "The capital of France is Paris." ]
  check "chat with a message: counts on stderr" grep -q 'context [0-9]* of 1024' "$err"
  printf 'Who are you?\n' | "$qinfer" chat "$chat_model" --greedy --system "You are Bob." >"$out" 2>"$err"
  check "chat with a piped message" stdout_has 'Bob'
  printf 'is the capital of France?' | "$qinfer" chat "$chat_model" "What" --greedy >"$out" 2>"$err"
  check "chat: what is piped in follows the message" stdout_has 'Paris'
  expect "chat --no-think" 0 chat "$chat_model" "What is 3 + 4?" --no-think --greedy
  check "chat --no-think: the answer alone" [ "$(cat "$out")" = "3 + 4 = 7." ]
  expect "chat, sampled as where the model says nothing" 0 chat "$chat_model" "Tell me a story." --seed 3
  first=$(cat "$out")
  expect "chat, sampled by options" 0 chat "$chat_model" "Tell me a story." --seed 3 --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05
  check "chat: the defaults are llama.cpp's" [ "$(cat "$out")" = "$first" ]
  cp -r "$chat_model" "$work/sampled"
  echo '{"do_sample": true, "temperature": 1.5, "top_p": 0.9, "eos_token_id": [1273, 1271]}' >"$work/sampled/generation_config.json"
  expect "chat, sampled as generation_config.json says" 0 chat "$work/sampled" "Tell me a story." --seed 3
  first=$(cat "$out")
  expect "chat, sampled by the same options" 0 chat "$chat_model" "Tell me a story." --seed 3 --temp 1.5 --top-k 50 --top-p 0.9 --min-p 0
  check "chat: generation_config.json is read as transformers does" [ "$(cat "$out")" = "$first" ]
  expect "chat --greedy" 0 chat "$work/sampled" "Tell me a story." --greedy
  first=$(cat "$out")
  expect "chat --temp 0" 0 chat "$work/sampled" "Tell me a story." --temp 0
  check "chat --greedy is --temp 0" [ "$(cat "$out")" = "$first" ]
  expect "chat --greedy --temp" 2 chat "$chat_model" x --greedy --temp 1
  expect "chat --overflow" 2 chat "$chat_model" x --overflow never
  expect "chat with a message that is too long" 1 chat "$chat_model" "What is 3 + 4?" --context 5
  check "chat with a message that is too long: numbers" grep -q 'tokens, and there is room for 5' "$err"
  printf '{"messages":[{"role":"user","content":"What is the capital of France?"},{"role":"assistant","content":"Paris."}]}' >"$work/kept.json"
  expect "chat --resume" 0 chat "$chat_model" "And what is 3 + 4?" --resume "$work/kept.json" --greedy
  check "chat --resume: the messages are there" grep -qE 'prompt (3[0-9]|[4-9][0-9]) tokens' "$err"
  expect "chat --resume of nothing" 1 chat "$chat_model" x --resume none-such
  for command in info plan tokenize render generate chat logits embed rerank pack pull list serve bench; do
    expect "help of $command" 0 "$command" --help
    check "help of $command: an example" grep -qE "^  qinfer $command( |\$)" "$out"
  done
  expect "chat without a message" 1 chat "$chat_model"
  expect "chat with a missing model" 1 chat "$work/none" x
  expect "chat with a model without template" 1 chat "$model" x
  expect "chat with a missing template" 1 chat "$chat_model" x --template "$work/none"
  printf '{{ x' >"$work/template"
  expect "chat with a bad template" 1 chat "$chat_model" x --template "$work/template"
  check "chat with a bad template: where" grep -q 'line 1, column 1' "$err"
  printf '\377' | "$qinfer" chat "$chat_model" >"$out" 2>"$err"
  status=$?
  check "chat with invalid UTF-8, which becomes U+FFFD: an answer" [ "$status" -eq 0 -a -s "$out" ]

  hub=$work/hub/models--own--tiny-chat
  mkdir -p "$hub/refs" "$hub/snapshots"
  printf abc >"$hub/refs/main"
  ln -s "$chat_model" "$hub/snapshots/abc"
  export HF_HUB_CACHE=$work/hub
  expect "a hub id in the cache" 0 chat own/tiny-chat "What is 3 + 4?" --greedy
  check "a hub id in the cache: an answer" stdout_has '3 + 4 = 7'
  expect "a hub id that is not in the cache" 1 chat own/other x
  check "a hub id that is not in the cache: what downloads it" grep -q 'qinfer pull own/other' "$err"
  unset HF_HUB_CACHE
}

check_usage
check_failures
check_info_and_plan
check_tokenize
check_logits
check_generate
check_interrupt
check_pipe
check_pack
check_render
check_chat
check_grammar
check_embed
check_rerank
check_bench
check_experts
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
