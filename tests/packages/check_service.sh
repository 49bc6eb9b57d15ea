#!/usr/bin/env bash
# The service of qinfer-server as `cmake --install` puts it: units that systemd reads without a word, as confined as they
# were, which name the installed program; and a file of options that a second installation leaves as it is.
# usage: check_service.sh BUILD_DIR
set -eu
build=$1
command -v systemd-analyze >/dev/null || { echo "skipped: machine: systemd-analyze is not there"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
prefix=$work/prefix
cmake --install "$build" --component server --prefix "$prefix" >"$work/log" || fail "$(cat "$work/log")"
options=$prefix/etc/default/qinfer-server

for unit in qinfer-server qinfer-server@; do
  file=$prefix/lib/systemd/system/$unit.service
  grep -q "^ExecStart=$prefix/bin/qinfer-server " "$file" || fail "$unit starts another program: $(grep ExecStart "$file")"
  grep -q "^EnvironmentFile=${options}\(-%i\)\?\$" "$file" || fail "$unit reads other options: $(grep EnvironmentFile "$file")"
  # Its page is not where man looks.
  systemd-analyze verify --man=no "$file" >"$work/log" 2>&1 || fail "systemd-analyze verify $unit: $(cat "$work/log")"
  [ ! -s "$work/log" ] || fail "systemd-analyze verify $unit: $(cat "$work/log")"
done
# 0 is confined, 10 is not. It is for the plain unit, since an instance has no file of its own.
systemd-analyze security --offline=yes --threshold=20 "$prefix/lib/systemd/system/qinfer-server.service" >"$work/log" 2>&1 ||
  fail "systemd-analyze security: $(tail -n 1 "$work/log")"

# systemctl stop waits for what --drain-s waits for, and longer.
drain=$("$build/server/qinfer-server" --help | sed -n 's/.*--drain-s UINT=\([0-9]*\).*/\1/p')
stop=$(sed -n 's/^TimeoutStopSec=\([0-9]*\)s$/\1/p' "$prefix/lib/systemd/system/qinfer-server.service")
[ -n "$drain" ] && [ "$stop" -ge $((2 * drain)) ] || fail "TimeoutStopSec=$stop is too short for --drain-s $drain"

# A service that nobody has told of a model says so by the path that is not there.
[ "$(. "$options" && echo "[$MODEL][$OPTIONS]")" = "[/path/of/a/model][]" ] || fail "the options are others: $(cat "$options")"
echo 'MODEL=/models/mine' >"$options"
cmake --install "$build" --component server --prefix "$prefix" >"$work/log" || fail "$(cat "$work/log")"
grep -qx 'MODEL=/models/mine' "$options" || fail "a second installation has replaced the options"
echo "the service: two units, and options that stay: ok"
