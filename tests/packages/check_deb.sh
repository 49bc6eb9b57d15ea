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
names=(libqinfer0.2 libqinfer-dev qinfer-tools libqinfer-grammar0.2)
for name in "${names[@]}"; do
  [ -n "$(newest $name)" ] || fail "no package $name in $packages"
  [ "$(newest $name)" != "$(oldest $name)" ] || fail "no second version of $name to upgrade to"
done
# The maintainer's address is for those to set who publish the packages (CPACK_PACKAGE_CONTACT).
lintian --fail-on error --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$(newest libqinfer0.2)" \
  "$(newest libqinfer-dev)" "$(newest qinfer-tools)" "$(newest libqinfer-grammar0.2)" || fail "lintian"

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

install gcc libc6-dev pkg-config $(in_root "$(oldest libqinfer-dev)")
inside sh -c 'cd /root && sed s:examples/models/:: story.c >app.c && cc app.c $(pkg-config --cflags --libs qinfer) -o app && ./app' |
  grep -q Lily || fail "cc app.c \$(pkg-config --cflags --libs qinfer)"
install g++
inside sh -c 'cd /root && cc app.c $(pkg-config --cflags qinfer) -Wl,-Bstatic -lqinfer -Wl,-Bdynamic -lutf8proc -lstdc++ -lm -lpthread -o app-static && ./app-static' |
  grep -q Lily || fail "a host of the static library"
inside sh -c 'ldd /root/app' | grep -q 'libqinfer.so.0.2 => /' || fail "the program does not use the package's library"
echo "a C program, shared and static: ok"

install $(in_root "$(newest libqinfer0.2)" "$(newest libqinfer-grammar0.2)" "$(newest qinfer-tools)" "$(newest libqinfer-dev)")
for name in "${names[@]}"; do
  [ "$(inside dpkg-query -W -f '${Version}' $name)" = "$(dpkg-deb -f "$(newest $name)" Version)" ] || fail "$name was not upgraded"
done
inside sh -c 'cd /root && ./app' | grep -q Lily || fail "the program does not run with the upgraded library"
echo "the upgrade: ok"

inside apt-get purge -y "${names[@]}" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "removing the packages"; }
for name in "${names[@]}"; do there $name && fail "$name is still installed"; done
left=$(find "$root/usr" "$root/etc" "$root/var/lib/dpkg/info" -iname '*qinfer*')
[ -z "$left" ] || fail "removing the packages left $left"
inside /root/app >/dev/null 2>&1 && fail "the program runs without its library"
echo "the removal: ok"
