#!/usr/bin/env bash
# ./dev and packages that are missing: where nobody can answer it says what to install and ends with 1, on a terminal it
# asks, with --yes or CI=true it installs. And what it says of tests that fail. The tools that it calls are stand-ins, which note how they were called, on a
# machine that lacks Catch2 alone.
# usage: check_dev.sh SOURCE_DIR
set -u
source=$1 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { echo "FAILED: $*"; failed=1; }
mkdir "$work/tools"
cat >"$work/tools/note" <<END
#!/bin/sh
echo "\$(basename "\$0") \$*" >>"$work/calls"
END
cat >"$work/tools/dpkg-query" <<'END'
#!/bin/sh
case "$*" in *catch2) exit 1 ;; *) echo "install ok installed" ;; esac
END
chmod +x "$work/tools/note" "$work/tools/dpkg-query"
for tool in apt-get sudo cmake; do ln -s note "$work/tools/$tool"; done
cp "$source/dev" "$work/dev" # its build folder is not this one's
mkdir -p "$work/grammar"
cp "$source/grammar/Cargo.toml" "$work/grammar/"

# dev ARGUMENT...: what is typed comes from standard input; the output is in $work/out.
run() {
  : >"$work/calls"
  PATH="$work/tools:$PATH" env -u CI "$@" >"$work/out" 2>&1
}
installs() { grep -q '\(apt-get\|sudo\).* install .*catch2' "$work/calls"; }

run "$work/dev" sanitize </dev/null && say "without a terminal: no failure"
grep -q 'apt-get install --no-install-recommends catch2$' "$work/out" || say "without a terminal: not said what to install: $(cat "$work/out")"
[ -s "$work/calls" ] && say "without a terminal: it called $(cat "$work/calls")"

run "$work/dev" sanitize --yes </dev/null
installs || say "--yes: nothing was installed: $(cat "$work/out")"
run env CI=true "$work/dev" sanitize </dev/null
installs || say "CI=true: nothing was installed: $(cat "$work/out")"

# script gives it a terminal, and types the answer.
run script -qec "$work/dev sanitize" /dev/null <<<"n"
grep -q 'Install them?' "$work/out" || say "on a terminal: it does not ask: $(cat "$work/out")"
[ -s "$work/calls" ] && say "after a no: it called $(cat "$work/calls")"
run script -qec "$work/dev sanitize" /dev/null <<<"y"
installs || say "after a yes: nothing was installed: $(cat "$work/out")"

# What a test that failed has printed last is said again at the end, not what an earlier run has left.
mkdir -p "$work/build/asan/Testing/Temporary" "$work/tests"
cp "$source/tests/test_data.txt" "$work/tests/"
echo '3:of an earlier run' >"$work/build/asan/Testing/Temporary/LastTestsFailed.log"
cat >"$work/tools/ctest" <<'END'
#!/bin/sh
cd build/asan/Testing/Temporary
for name in "of an earlier run" "OpenAI: an answer" python; do
  printf '1/3 Test: %s\nOutput:\n-----\n' "$name"
  seq -f "$name says %g" 40
  echo '<end of output>'
done >LastTest.log
printf '4:OpenAI: an answer\n5:python\n' >>LastTestsFailed.log
exit 8
END
chmod +x "$work/tools/ctest"
run "$work/dev" sanitize --yes </dev/null && say "a test fails: no failure"
printf 'FAILED: OpenAI: an answer\n' >"$work/expected"
seq -f '  OpenAI: an answer says %g' 26 40 >>"$work/expected"
printf 'FAILED: python\n' >>"$work/expected"
seq -f '  python says %g' 26 40 >>"$work/expected"
cmp -s "$work/expected" "$work/build/asan/failed.txt" || say "a test fails: not said what it printed: $(cat "$work/out")"

[ $failed -eq 0 ] && echo "./dev asks, says what is missing, or installs: ok"
exit $failed
