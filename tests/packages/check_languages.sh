#!/usr/bin/env bash
# Two languages in one process: Python with the wheel's library, and a shared library in Go over the archive's. In either
# order of loading they tell the same story, at once on two threads too, again and again, and nothing grows.
# usage: check_languages.sh PYTHON PREFIX SOURCE_DIR, PYTHON having the qinfer package
set -eu
python=$1 prefix=$2 source=$3
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cp "$source/tests/packages/two_languages.go" "$work/main.go"
cd "$work"
printf 'module teller\n\ngo 1.23\n\nrequire qinfer v0.0.0\n\nreplace qinfer => %s/bindings/go\n' "$source" >go.mod
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig CGO_LDFLAGS="-Wl,-rpath,$prefix/lib" GOCACHE=${GOCACHE:-$work/cache} GOFLAGS=-mod=mod
go build -buildmode=c-shared -o libteller.so .

cat >host.py <<'PYTHON'
import ctypes
import os
import sys
import threading

first, model = sys.argv[1:]
ROUNDS = 60


def load_go():
    teller = ctypes.CDLL("./libteller.so")
    teller.TellStory.restype = ctypes.c_void_p
    teller.TellStory.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int32]
    teller.FreeText.argtypes = [ctypes.c_void_p]
    return teller


if first == "go":
    teller = load_go()
import qinfer

if first == "python":
    teller = load_go()


def told_by_go():
    address = teller.TellStory(model.encode(), b"Once upon a time", 16)
    text = ctypes.string_at(address).decode()
    teller.FreeText(address)
    return text


def told_by_python():
    with qinfer.Model(model) as loaded, qinfer.Session(loaded, max_tokens=128) as session:
        session.append("Once upon a time")
        return session.generate(16).text


def use():
    pages = int(open("/proc/self/statm").read().split()[1])
    mapped = sum("libqinfer.so" in line and "r-xp" in line for line in open("/proc/self/maps"))
    return pages, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), mapped


stories = []
for at in range(ROUNDS):
    teller_thread = threading.Thread(target=lambda: stories.append(told_by_go()))
    teller_thread.start()
    stories.append(told_by_python())
    teller_thread.join()
    if at == ROUNDS // 3:
        before = use()
after = use()
assert set(stories) == {", there was a little girl named Lily. She was a very kind girl."}, set(stories)
assert len(stories) == 2 * ROUNDS
print(f"{first} first: {before[3]} libraries, resident pages {before[0]}, then {after[0]}; threads {before[1]}, then {after[1]}")
assert after[0] - before[0] < 1024, "4 MiB more"
assert after[1] <= before[1] + 2, "threads"  # Go's runtime keeps the threads that it made for calls
assert after[2] == before[2], "open files"
PYTHON
for order in python go; do
  "$python" host.py $order "$source/examples/models/tiny-stories"
done
