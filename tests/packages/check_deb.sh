#!/usr/bin/env bash
# The Debian packages in a new Debian: installed with nothing but what they ask for, used, upgraded and removed.
# usage: check_deb.sh FOLDER_OF_PACKAGES SOURCE_DIR
# Needs root (a chroot) and debootstrap; otherwise it says so and ends with 77. Nothing is installed on this machine.
set -eu
packages=$1 source=$2
fail() { echo "FAILED: $*"; exit 1; }
[ "$(id -u)" = 0 ] || { echo "skipped: machine: the Debian packages are tried in a chroot, which needs root"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: machine: debootstrap is not there"; exit 77; }
work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT

newest() { find "$packages" -name "$1_*.deb" | sort -V | tail -n 1; }
oldest() { find "$packages" -name "$1_*.deb" | sort -V | head -n 1; }
names=(libqinfer0.2 libqinfer-dev qinfer-tools libqinfer-grammar0.2 qinfer-server)
for name in "${names[@]}"; do
  [ -n "$(newest $name)" ] || fail "no package $name in $packages"
  [ "$(newest $name)" != "$(oldest $name)" ] || fail "no second version of $name to upgrade to"
done
# The maintainer's address is for those to set who publish the packages (CPACK_PACKAGE_CONTACT).
lintian --fail-on error --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
  $(for name in "${names[@]}"; do newest $name; done) || fail "lintian"

suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/log" 2>&1 || { tail -n 5 "$work/log"; fail "debootstrap"; }
cp /etc/apt/sources.list "$root/etc/apt/" 2>/dev/null || true
cp -r /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2>/dev/null || true
cp -r "$source/examples/models/tiny-stories" "$source/examples/story.c" "$source/examples/find_package" "$root/root/"
mkdir "$root/debs"
cp "$packages"/*.deb "$root/debs/"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
install() { inside apt-get install -y --no-install-recommends "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "installing $*"; }; }
there() { inside dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
in_root() { local deb; for deb in "$@"; do echo "/debs/$(basename "$deb")"; done; }
inside apt-get update >"$work/log" 2>&1 || { tail -n 5 "$work/log"; fail "apt-get update"; }

install $(in_root "$(oldest libqinfer0.2)" "$(oldest libqinfer-grammar0.2)" "$(oldest qinfer-tools)")
inside sh -c 'cd /root && qinfer generate tiny-stories "Once upon a time" -n 8' | grep -q Lily || fail "the command tells no story"
inside test -e /usr/share/man/man1/qinfer.1.gz -o -e /usr/share/man/man1/qinfer.1 || echo "the page was left out, as dpkg is set up here"
echo "the command, without any other package of ours: ok"

# The server: it brings a service that nobody has enabled, and `qinfer serve` finds it.
inside sh -c 'qinfer serve /root/tiny-stories' >"$work/log" 2>&1 && fail "qinfer serve without qinfer-server"
grep -q 'package qinfer-server' "$work/log" || fail "qinfer serve does not name its package: $(cat "$work/log")"
install $(in_root "$(oldest qinfer-server)")
inside qinfer-server --help >"$work/log" || fail "qinfer-server --help: $(cat "$work/log")"
[ "$(inside dpkg-query -W -f '${Conffiles}' qinfer-server | awk '{ print $1 }' | xargs)" = /etc/default/qinfer-server ] || fail "the conffiles"
left=$(find "$root/etc/systemd" -name '*qinfer*' 2>/dev/null || true)
[ -z "$left" ] || fail "the service is enabled: $left"
chroot "$root" qinfer serve /root/tiny-stories --port 0 2>"$work/serving" &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
for _ in $(seq 300); do grep -q http: "$work/serving" && break; sleep 0.1; done
port=$(sed -n 's/^qinfer-server: http:.*:\([0-9]*\)$/\1/p' "$work/serving")
[ -n "$port" ] || fail "qinfer serve: $(cat "$work/serving")"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
grep -q tiny-stories <&3 || fail "qinfer serve does not say what it serves"
exec 3>&-
kill $server
wait $server || fail "the server, told to end, ends with $?"
trap 'rm -rf --one-file-system "$work"' EXIT
echo 'OPTIONS="--port 8081"' >>"$root/etc/default/qinfer-server"
echo "the server: ok"

install gcc libc6-dev pkg-config $(in_root "$(oldest libqinfer-dev)")
inside sh -c 'cd /root && sed s:examples/models/:: story.c >app.c && cc app.c $(pkg-config --cflags --libs qinfer) -o app && ./app' |
  grep -q Lily || fail "cc app.c \$(pkg-config --cflags --libs qinfer)"
install g++
inside sh -c 'cd /root && cc app.c $(pkg-config --cflags qinfer) -Wl,-Bstatic -lqinfer -Wl,-Bdynamic -lutf8proc -lstdc++ -lm -lpthread -o app-static && ./app-static' |
  grep -q Lily || fail "a host of the static library"
inside sh -c 'ldd /root/app' | grep -q 'libqinfer.so.0.2 => /' || fail "the program does not use the package's library"
echo "a C program, shared and static: ok"

install $(in_root $(for name in "${names[@]}"; do newest $name; done))
for name in "${names[@]}"; do
  [ "$(inside dpkg-query -W -f '${Version}' $name)" = "$(dpkg-deb -f "$(newest $name)" Version)" ] || fail "$name was not upgraded"
done
inside sh -c 'cd /root && ./app' | grep -q Lily || fail "the program does not run with the upgraded library"
grep -q 8081 "$root/etc/default/qinfer-server" || fail "the upgrade has replaced the service's options"
mkdir -p "$root/var/lib/private/qinfer-server-a" && ln -s private/qinfer-server-a "$root/var/lib/" # as systemd leaves them
echo "the upgrade: ok"

inside apt-get purge -y "${names[@]}" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "removing the packages"; }
for name in "${names[@]}"; do there $name && fail "$name is still installed"; done
left=$(find "$root/usr" "$root/etc" "$root/var/lib" -iname '*qinfer*')
[ -z "$left" ] || fail "removing the packages left $left"
inside /root/app >/dev/null 2>&1 && fail "the program runs without its library"
echo "the removal: ok"
