#!/usr/bin/env bash
# habits.sh: talks with `qinfer chat` in tmux as people who know other programs do: settings, other answers, changed
# messages, files, conversations by name, a full context, words at the edge, completion, typing during an answer.
#   bash tests/cli/habits.sh PATH_TO_QINFER CHAT_MODEL_DIRECTORY
# Ends with "N passed, N failed"; the exit status is 1 if any check failed, 77 without tmux.
set -u
command -v tmux >/dev/null || { echo "skipped: machine: tmux is not there (package tmux)"; exit 77; }
[ $# -eq 2 ] || { echo "usage: $0 PATH_TO_QINFER CHAT_MODEL_DIRECTORY" >&2; exit 2; }
qinfer=$(realpath "$1")
model=$(realpath "$2")
work=$(mktemp -d)
export XDG_STATE_HOME=$work/state HOME=$work LC_ALL=C.UTF-8 EDITOR="$work/editor"
unset TMUX VISUAL
passed=0
failed=0

tmux_here() { tmux -S "$work/socket" -f /dev/null "$@"; }
trap 'tmux_here kill-server 2>/dev/null; rm -rf "$work"' EXIT

screen() { tmux_here capture-pane -p -S - -t chat; }
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  echo "FAILED: $1"
  screen 2>/dev/null | sed '/^[[:space:]]*$/d; s/^/  | /' | tail -n 20
}
check() { # NAME CONDITION...
  local name=$1
  shift
  if "$@"; then pass; else fail "$name"; fi
}
# Waits until the screen has a line that matches, and counts it as a check.
see() { # NAME REGEX
  local try
  for try in $(seq 600); do
    if screen | grep -qE -- "$2"; then pass; return 0; fi
    sleep 0.1
  done
  fail "$1 (no line matches $2)"
  return 1
}
# The last line with text is an empty prompt: the program waits for a line.
prompt() {
  local try
  for try in $(seq 600); do
    [ "$(screen | sed '/^[[:space:]]*$/d' | tail -n 1)" = ">" ] && return 0
    sleep 0.1
  done
  fail "a prompt after: $1"
}
keys() { tmux_here send-keys -t chat "$@"; }
clear_screen() {
  keys -R
  tmux_here clear-history -t chat
}
# A line, and what the program says to it until it waits for the next.
say() {
  clear_screen
  keys -l -- "$1"
  keys Enter
  sleep 0.3
  prompt "$1"
}
shows() { screen | grep -qE -- "$1"; }
shows_not() { ! screen | grep -qE -- "$1"; }
start() { # COLUMNS ARGUMENTS...
  local columns=$1
  shift
  tmux_here kill-server 2>/dev/null
  local try
  for try in $(seq 50); do  # the server before may still be ending
    tmux_here new-session -d -s chat -x "$columns" -y 50 \
      "$(printf '%q ' "$qinfer" chat "$@"); echo ended \$?; sleep 600" 2>/dev/null && break
    sleep 0.2
  done
  prompt "the start"
}
roles() { python3 -c 'import json,sys; print(*(m["role"][0] for m in json.load(open(sys.argv[1]))["messages"]), sep="")' "$1"; }
content() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["messages"][int(sys.argv[2])]["content"])' "$1" "$2"; }

check_settings() {
  say "/stats"
  check "stats: how it samples, and why" shows "sampling: temperature 0\.6, top-k 20.*\(as generation_config"
  say "/set temp 0"
  check "set: says so" shows "temp is 0 from the next answer on"
  say "/stats"
  check "stats: changed settings" shows "sampling: greedy; as generation_config"
  say "/set parameter temperature 0.5"
  check "set: as ollama has it" shows "temperature is 0.5"
  say "/set tmp 1"
  check "set: the nearest name" shows "no setting .tmp.; did you mean temp"
  say "/set top_p 2"
  check "set: what would be right" shows 'top-p: "2" is not a number from 0 to 1'
  say "/set typical_p 0.9"
  say "/set samplers temperature;xtc"
  say "/set samplers top_k;foo"
  check "set: steps of the sampler" shows 'samplers: "foo" is not one of penalties, dry'
  say "/set dry-sequence-breaker"
  check "set: a breaker of DRY needs a text" shows "/set needs a name and a value"
  say "/set dry_sequence_breaker $(printf 'x%.0s' $(seq 41))"
  check "set: a breaker that is too long" shows "dry-sequence-breaker: it has 41 bytes, at most 40"
  say "/set dry-sequence-breaker #"
  say '/set dry-sequence-breaker \n\t'
  say "/show"
  check "set: breakers of DRY are added" shows '^dry-sequence-breaker +"#" "\\n\\t" '
  say "/set dry-sequence-breaker none"
  say "/show"
  check "set: no breakers of DRY" shows '^dry-sequence-breaker +none '
  say "/set dry-sequence-breaker default"
  say "/set mirostat 1"
  check "set: the versions of mirostat" shows 'mirostat: "1" is not one of 0,2'
  say "/stats"
  check "stats: the other samplers" shows "typical 0\.9, seed 0; as"
  say "/show"
  check "show: the other samplers" shows "^typical +0\.9 "
  check "show: their defaults" shows "^dry-base +1\.75 "
  check "show: the default breakers of DRY" shows "^dry-sequence-breaker +default "
  check "show: steps" shows "^samplers +temperature;xtc "
  say "/set samplers default"
  say "/set typical 0"
  say "/show"
  check "show: the model" shows "^model .*tiny-chat"
  check "show: settings" shows "^top-k +20 "
  # The terminal breaks what is wider, and such a row is full.
  check "show: no line is broken" [ "$(screen | awk 'length >= 80' | wc -l)" -eq 0 ]
  say "/?"
  check "help by another name" shows "/retry"
  check "help: no line is broken" [ "$(screen | awk 'length >= 80' | wc -l)" -eq 0 ]
  say "/image x.png"
  check "image: refused by name" shows "/image: models read text alone"
  say "/sev x"
  check "a typo: the nearest command" shows "no command /sev; did you mean /se"
  say "/home/me is a folder"
  check "a path is no command" shows "context [0-9]+ of"
  say "/clear"
  say "/set temp 0"
}

check_turns() {
  say "What is 3 + 4?"
  check "an answer" shows "3 \+ 4 = 7"
  say "/retry"
  check "retry: greedy says that nothing changes" shows "greedy: the answer stays the same"
  say "/save turns"
  check "save: says where" shows "saved 2 messages in .*state/qinfer/conversations/turns.json"
  check "retry: replaces the answer" [ "$(roles "$work/state/qinfer/conversations/turns.json")" = ua ]
  say "What is 2 + 2?"
  say "/undo"
  check "undo: says what is left" shows "2 messages are left"
  say "/edit What is 5 + 1?"
  check "edit TEXT: the answer to it" shows "5 \+ 1 = 6"
  clear_screen
  keys -l "/edit"
  keys Enter
  see "edit: the line as it was" "^edit> What is 5 \+ 1\?"
  keys BSpace BSpace 4 "?" Enter
  see "edit: the answer to the changed line" "5 \+ 4 = 9"
  prompt "edit"
  printf '#!/bin/sh\nprintf "What is\\n1 + 1?\\n" >"$1"\n' >"$work/editor"
  chmod +x "$work/editor"
  say $'"""What is\n2 + 3?"""'
  say "/edit"
  say "/save ~/edited.json"
  check "edit: several lines in EDITOR" [ "$(content "$work/edited.json" 2 | tr '\n' '|')" = "What is|1 + 1?|" ]
  check "edit: in place of the message" [ "$(roles "$work/edited.json")" = uaua ]
}

check_blocks_and_files() {
  say "/clear"
  say '"""Who are you?"""'
  say $'"""What is\nthe capital of\nFrance?"""'
  say "/save ~/blocks.json"
  check "a block in one line: no quotes" [ "$(content "$work/blocks.json" 0)" = "Who are you?" ]
  check "a block: all its lines" [ "$(content "$work/blocks.json" 2 | tr '\n' '|')" = "What is|the capital of|France?|" ]
  printf 'alpha\n```\nbeta\n' >"$work/notes.txt"
  printf '\377\000' >"$work/binary.bin"
  say "/file ~/binary.bin"
  check "file: no text" shows "is not a text in UTF-8"
  say "/file ~/none"
  check "file: none" shows "cannot read .*none"
  say "/file /dev/zero"
  check "file: a device without end" shows "/dev/zero is a device or a pipe"
  say "/file ~/notes.txt"
  check "file: says what was read" shows "notes.txt: 3 lines, 14 B: part of the next message"
  say "What is this?"
  say "/save ~/files.json"
  check "file: in the message" [ "$(content "$work/files.json" 4 | tr '\n' '|')" = \
    'notes.txt:|````|alpha|```|beta|````||What is this?|' ]
}

# Of each the chat says what is wrong, and the conversation goes on.
check_bad_files() {
  say "/save $work/$(printf 'x%.0s' $(seq 300))"
  check "save: a name that is too long" shows "too long"
  ln -s loop.json "$work/loop.json"
  say "/save ~/loop.json"
  check "save: links in a circle" shows "cannot write"
  say "/save ~/none/x.json"
  check "save: no folder" shows "cannot write"
  say "/load /dev/zero"
  check "load: a device without end" shows "/dev/zero is too long"
  say "/save ~/after.json"
  check "bad files: the conversation is there" [ "$(roles "$work/after.json")" = "$(roles "$work/files.json")" ]
}

check_names() {
  say "/load"
  check "load: what is kept" shows "kept: turns"
  say "/load turns"
  check "load: goes on" shows "goes on after 2 messages"
  say "/load none"
  check "load: no such name" shows "no conversation none is kept"
  keys -l "/bye"
  keys Enter
  see "bye: ends with status 0" "^ended 0"
  start 80 "$model" --resume turns
  check "resume: goes on" shows "goes on after 2 messages"
  check "names: theirs alone to read" [ "$(stat -c %a "$work/state/qinfer/conversations")" = 700 ]
  say "/save"
  check "save: the name that it has" shows "saved 2 messages in .*turns.json"
}

# The screen is not cleared: the editor knows what it has drawn.
check_typing() {
  keys -l "/sa"
  keys Tab
  keys -l "~/note"
  see "Tab: a command" "/save ~/note"
  keys Tab
  see "Tab: a file" "/save ~/notes.txt"
  keys C-c
  prompt "Ctrl-C"
  keys -l "/re"
  keys Tab
  see "Tab: what may be meant" "/reset +/retry"
  keys C-c
  prompt "Ctrl-C"
  keys -l "$(printf 'word %.0s' $(seq 30))"
  keys Home C-c
  sleep 0.5
  keys -l "next"
  see "Ctrl-C in the first of two rows: the next line is clean" "^> next$"
  keys C-c
  prompt "Ctrl-C"
}

# An answer that never ends by itself: the template has nothing that would.
check_type_ahead_and_wrap() {
  printf '{%% for m in messages %%}{{ m.content }} {%% endfor %%}' >"$work/template"
  start 40 "$stories" --template "$work/template" --context 400 -n 150 --greedy
  keys -l "Once upon a time"
  keys Enter
  sleep 0.4
  keys -l "kept for later"
  keys Enter
  see "typed during an answer: the next message" "^> kept for later"
  sleep 0.5
  prompt "both answers"
  check "typed during an answer: not in it" [ "$(screen | grep -c 'kept for later')" -eq 1 ]
  keys -l "/save ~/wrap.json"
  keys Enter
  prompt "/save"
  content "$work/wrap.json" 1 | tr -s ' \n' '\n' | sed '/^$/d' >"$work/words"
  screen | awk '/^> Once/ {on=1; next} /^\[/ {on=0} on' | tr -s ' \n' '\n' | sed '/^$/d' >"$work/shown"
  check "words are not cut at the edge" cmp -s "$work/words" "$work/shown"
  keys -l "/bye"
  keys Enter
  see "bye" "^ended 0"
}

check_overflow() {
  start 100 "$stories" --template "$work/template" --context 120 -n 20 --greedy
  say "Once upon a time there was a little girl who had a big red ball and she loved it"
  say "One day she went to the park with her mother and they saw a dog that was very sad"
  say "Then the dog came to the girl and the girl was happy and she gave the ball to the dog"
  check "an answer that the context has no room for: what can be done" shows "/undo takes the last turn back, /reset"
  say "Then they all went home and the mother made a cake for the girl and for the sad dog"
  check "a message that the context has no room for: said" shows "tokens, and there is room for 120"
  check "a message that the context has no room for: what can be done" shows "/undo takes the last turn back, /reset"
  say "\"\"\"$(printf 'Then they all went home. %.0s' $(seq 12))\"\"\""
  check "a block that the context has no room for: said" shows "tokens, and there is room for 120"
  say "/set overflow drop-oldest"
  say "Then they all went home and the mother made a cake for the girl and for the sad dog"
  check "drop-oldest: told" shows "the model no longer sees the oldest [0-9]+ turn"
  check "drop-oldest: an answer" shows "^\[20 tokens"
  say "/save ~/long.json"
  check "drop-oldest: nothing is lost of what is saved" [ "$(roles "$work/long.json" | cut -c 1-4)" = uaua ]
  check "drop-oldest: the beginning is there" grep -q "little girl who had a big red ball" "$work/long.json"
}

check_no_temporary_folder() {
  TMPDIR=$work/none start 80 "$copy" --greedy
  say $'"""What is\n3 + 4?"""'
  say "/edit"
  check "edit: no folder for the file" shows "no folder for temporary files"
  say "/save ~/unedited.json"
  check "edit: the conversation is there" [ "$(roles "$work/unedited.json")" = ua ]
}

# A GGUF file with keys that say how to sample, as llama.cpp's converter writes them.
check_gguf_sampling() {
  "$qinfer" pack "$model" "$work/says.gguf" --gguf >/dev/null 2>&1
  python3 - "$work/says.gguf" <<'EOF'
import struct, sys
def text(value): return struct.pack("<Q", len(value)) + value
def entry(key, kind, value): return text(b"general." + key) + struct.pack("<I", kind) + value
data = open(sys.argv[1], "rb").read()
added = entry(b"sampling.sequence", 8, text(b"ek?tk")) + entry(b"sampling.penalty_last_n", 5, struct.pack("<i", 32))
added += entry(b"note", 8, text(b"-" * (-len(added + entry(b"note", 8, text(b""))) % 32)))  # tensors stay aligned
n_keys = struct.unpack_from("<Q", data, 16)[0]
open(sys.argv[1], "wb").write(data[:16] + struct.pack("<Q", n_keys + 3) + added + data[24:])
EOF
  start 80 "$work/says.gguf"
  say "/show"
  check "GGUF keys: the steps of the sampler" shows "^samplers +penalties;top_k;temperature "
  check "GGUF keys: how far back penalties look" shows "^repeat-last-n +32 "
  say "/set samplers default"
  say "/set repeat-last-n -2"
  check "set: how far back penalties look" shows 'repeat-last-n: "-2" is not'
  say "/set repeat-last-n -1"
  say "/show"
  check "set: what a file says is changed" shows "^samplers +default "
  check "set: penalties look at all tokens" shows "^repeat-last-n +-1 "
  start 80 "$work/says.gguf" --samplers "dry;temperature" --repeat-last-n 0
  say "/show"
  check "options: before what a file says" shows "^samplers +dry;temperature "
  check "options: no penalties" shows "^repeat-last-n +0 "
}

stories=$(dirname "$model")/tiny-stories
copy=$work/tiny-chat
cp -r "$model" "$copy"
python3 - "$copy/generation_config.json" <<'EOF'
import json, sys
config = json.load(open(sys.argv[1]))
config.update(do_sample=True, temperature=0.6, top_k=20)
json.dump(config, open(sys.argv[1], "w"))
EOF
start 80 "$copy"
check_settings
check_turns
check_blocks_and_files
check_bad_files
check_names
check_typing
check_type_ahead_and_wrap
check_overflow
check_no_temporary_folder
check_gguf_sampling
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
