#!/usr/bin/env bash
# The pages tell the truth about the tree: relative links of README.md, CONTRIBUTING.md and docs/ lead somewhere; each
# row "| what | [path](link) | `name` |" of docs/architecture.md names a file that contains the name; each block of C
# or C++ is word for word a part of the program linked last before it; docs/reference.md has a row for each section of
# qinfer.h; tests that tests/habits/README.md names exist; and README.md stays readable in a minute.
# usage: check_docs.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
say() { echo "FAILED: $*"; failed=1; }

# Relative links, without anchors and titles; code blocks are no links.
links=0
for page in README.md CONTRIBUTING.md docs/*.md docs/performance/*.md bench/results/README.md; do
  while IFS= read -r link; do
    links=$((links + 1))
    [ -e "$(dirname "$page")/$link" ] || say "$page links to $link, which does not exist"
  done < <(awk '/^```/ {code = !code} !code' "$page" | grep -oE '\]\([^)# ]+' | sed 's/^](//' | grep -vE '^[a-z]+:')
done
[ $links -gt 20 ] || say "only $links links were found"

# Where things are done.
page=docs/architecture.md rows=0
while IFS= read -r row; do
  file=$(sed -E 's/.*\| *\[([^]]+)\]\(([^)]+)\) *\|[^|]*\| *$/\1/' <<<"$row")
  link=$(sed -E 's/.*\| *\[([^]]+)\]\(([^)]+)\) *\|[^|]*\| *$/\2/' <<<"$row")
  name=$(sed -E 's/.*\| *`([^`]+)` *\| *$/\1/' <<<"$row")
  rows=$((rows + 1))
  if [ "$link" != "../$file" ] || [ "$name" = "$row" ]; then
    say "$page: a row is not \"| what | [path](../path) | \`name\` |\": $row"
  elif [ ! -f "$file" ]; then
    say "$page names $file, which does not exist (row: $row)"
  elif ! grep -qwF -- "$name" "$file"; then
    say "$page: $file does not contain $name (row: $row)"
  fi
done < <(grep -E '^\|.*\]\(' $page)
[ $rows -ge 20 ] || say "$page has only $rows rows of files and names"
for thing in "a prompt becomes tokens" "a tensor is found in a file" "a layer's phases run" "a block is taken" \
  "a block is given back" "a kernel set is chosen" "logits reach the host" "a plan is derived" "a snapshot is written" \
  "an architecture is added" "a kernel is added"; do
  grep -q "^| $thing |" $page || say "$page does not say where $thing"
done

# Programs that are quoted, and all of them linked.
quotes=0
for page in README.md docs/*.md; do
  program="" block="" in_block=""
  while IFS= read -r line; do
    if [ -n "$in_block" ] && [ "$line" = '```' ]; then
      in_block="" quotes=$((quotes + 1))
      if [ ! -f "$program" ]; then
        say "$page: no program of examples/ is linked before this block: $block"
      elif [[ "$(<"$program")"$'\n' != *"$block"* ]]; then
        say "$page: this block is not in $program: $block"
      fi
    elif [ -n "$in_block" ]; then
      block+=$line$'\n'
    elif [ "$line" = '```c' ] || [ "$line" = '```cpp' ]; then
      in_block=yes block=""
    elif [[ $line =~ \]\((\.\./)?(examples/[a-z_]+\.c(pp)?)\) ]]; then
      program=${BASH_REMATCH[2]}
    fi
  done <$page
done
[ $quotes -ge 10 ] || say "only $quotes blocks of C were found"
for program in examples/*.c examples/*.cpp; do
  grep -q "]([^)]*$program)" README.md docs/embedding.md || say "neither README.md nor docs/embedding.md links $program"
done

# The map of the header.
sections=0
while IFS= read -r section; do
  sections=$((sections + 1))
  grep -qF "| $section |" docs/reference.md || say "docs/reference.md has no row for qinfer.h's section \"$section\""
done < <(sed -nE 's@^/\* -+ (.*[^ -]) -+ \*/$@\1@p' include/qinfer/qinfer.h | sed -E 's/:.*| \[.*//')
[ "$(grep -c '^| .*qinfer_' docs/reference.md)" -eq $sections ] || say "docs/reference.md has rows for no section of qinfer.h"

# Complaints of newcomers: the tests that the rows name.
tests=0
while IFS= read -r name; do
  tests=$((tests + 1))
  [ -e "tests/habits/$name" ] || [ -e "$name" ] || say "tests/habits/README.md names $name, which does not exist"
done < <(grep '^| ' tests/habits/README.md | grep -oE '`[a-z_]+/[A-Za-z0-9_./-]*`|`[a-z_]+\.(py|sh|cpp)`' | tr -d '`')
[ $tests -ge 50 ] || say "tests/habits/README.md names only $tests tests"

# A minute: some 450 words of text, one table, a program of 25 lines.
words=$(awk '/^```/ {code = !code; next} !code && !/^\|/ && !/^<!--/' README.md | wc -w)
[ "$words" -le 450 ] || say "README.md has $words words outside code and tables, at most 450 are read in a minute or so"
[ "$(grep -c '^|---' README.md)" -eq 1 ] || say "README.md has more or less than one table"
[ "$(grep -c '^| [^|]' README.md)" -le 6 ] || say "README.md's table has more than five rows"
lines=$(sed -n '/^```c$/,/^```$/p' README.md | wc -l)
[ "$lines" -le 27 ] || say "README.md's program has $((lines - 2)) lines, at most 25"

[ $failed -eq 0 ] && echo "$links links, $rows files and names, $quotes quotes: ok"
exit $failed
