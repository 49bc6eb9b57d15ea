#!/usr/bin/env python3
"""Lets `qinfer pull` download from a hub on loopback that is slow, cuts connections, sends other bytes than it promised and
redirects to another host, and looks at what arrives: everything or nothing, and the token at the hub alone.

    pull.py PATH_TO_QINFER CHAT_MODEL_DIRECTORY

Ends with "N passed, N failed"; the exit status is 1 if any check failed, 77 where the command was built without libcurl.
"""
import hashlib
import http.server
import json
import os
import pathlib
import pty
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

QINFER, MODEL = sys.argv[1], pathlib.Path(sys.argv[2])
MIB = 1 << 20
TOKEN = "hf_secret"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
counts = {True: 0, False: 0}


def check(name, good, seen=""):
    counts[bool(good)] += 1
    if not good:
        print(f"FAILED: {name}\n  {str(seen)[-600:]}")


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """Two servers: the hub, which has small files, and a store on another port, to which it redirects for large ones."""

    def __init__(self):
        self.repositories = {}
        self.requests = []  # (which server, path, headers)
        self.sent = []  # (first byte, how many) of large files
        self.store = self.start("store")
        self.hub = self.start("hub")
        self.url = f"http://127.0.0.1:{self.hub.server_port}"
        self.behave()

    def behave(self, **how):
        """cut_after: bytes for each connection; wrong: other bytes; no_ranges; wrong_begin: once; piece_s: of a pause;
        status: of each answer; listed: names more; longer: bytes more; unsized: the hub states no size; endless: status
        of the answers that are followed by bytes without end, a piece each endless_s seconds; endless_file: its name."""
        self.how = how
        self.requests.clear()
        self.sent.clear()

    def start(self, which):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.do_GET(False)

            def do_GET(self, body=True):
                hub.requests.append((which, self.path, dict(self.headers)))
                try:
                    (hub.answer_hub if which == "hub" else hub.answer_store)(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def reply(self, handler, status, headers, data, body, file=""):
        is_endless = self.how.get("endless", 0) == status or self.how.get("endless_file") == file != ""
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if is_endless or "unsized" in self.how:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        else:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if body:
            handler.wfile.write(data)
        while body and is_endless:  # until the other end closes the connection
            handler.wfile.write(b"x" if "endless_s" in self.how else bytes(1 << 12))
            time.sleep(self.how.get("endless_s", 0))

    def answer_hub(self, handler, body):
        if "status" in self.how:
            return self.reply(handler, self.how["status"], {"X-Error-Message": "Repository not found"}, b"", body)
        path = urllib.parse.unquote(handler.path.split("?")[0])
        for name, files in self.repositories.items():
            if path == f"/api/models/{name}/revision/main":
                siblings = [{"rfilename": file} | ({} if "unsized" in self.how else {"size": len(data)})
                            for file, data in files.items()]
                siblings += [{"rfilename": file} for file in self.how.get("listed", [])]
                return self.reply(handler, 200, {}, json.dumps({"sha": COMMIT, "siblings": siblings}).encode(), body)
            begin = f"/{name}/resolve/{COMMIT}/"
            if path.startswith(begin) and path[len(begin):] in files:
                data = files[path[len(begin):]]
                if len(data) < MIB // 4:
                    sent = bytes(len(data)) if "wrong_small" in self.how else data
                    return self.reply(handler, 200, {"ETag": f'"{git_id(data)}"'}, sent, body, path[len(begin):])
                sha256 = hashlib.sha256(data).hexdigest()
                self.large = data
                # The same path of the same host first, as the hub has it for some files.
                if "again" not in handler.path:
                    return self.reply(handler, 307, {"Location": f"{path}?again"}, b"", body)
                return self.reply(handler, 302, {
                    "Location": f"http://localhost:{self.store.server_port}/{sha256}", "X-Linked-Etag": f'"{sha256}"',
                    "X-Linked-Size": str(len(data))}, b"elsewhere", body)
        return self.reply(handler, 404, {}, b"", body)

    def answer_store(self, handler, body):
        data, status, first = self.large, 200, 0
        asked = handler.headers.get("Range")
        if asked and "no_ranges" not in self.how:
            first, status = int(asked.removeprefix("bytes=").split("-")[0]), 206
            if first >= len(data):
                return self.reply(handler, 416, {}, b"", body)
        told = first + 1 if self.how.pop("wrong_begin", None) and status == 206 else first
        rest = data[first:] + b"x" * self.how.get("longer", 0)
        handler.send_response(status)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {told}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        if self.how.get("wrong"):
            rest = bytes(len(rest))
        cut = rest[:self.how.get("cut_after", len(rest))]
        self.sent.append((first, len(cut)))
        for at in range(0, len(cut), MIB // 16):
            handler.wfile.write(cut[at:at + MIB // 16])
            time.sleep(self.how.get("piece_s", 0))
        handler.wfile.flush()
        if len(cut) < len(rest):
            handler.close_connection = True


hub = Hub()
# Without proxies: everything stays on this machine.
environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and not key.startswith("HF_")}


def start(home, *arguments, limit=None, **variables):
    def before():
        if limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.Popen([QINFER, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=before,
                            env={**environment, "HF_HOME": str(home), "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, **variables})


def run(home, *arguments, **how):
    process = start(home, *arguments, **how)
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def folder(home, name="own/big"):
    return home / "hub" / ("models--" + name.replace("/", "--"))


def left(home):
    """(blobs that are whole, blobs that are not, links that lead somewhere)"""
    blobs = [path for path in folder(home).glob("blobs/*")]
    links = [path for path in folder(home).glob("snapshots/*/*") if path.exists()]
    return ([p for p in blobs if p.suffix != ".incomplete"], [p for p in blobs if p.suffix == ".incomplete"], links)


def is_there(home, data, name="own/big", file="model.gguf"):
    link = folder(home, name) / "snapshots" / COMMIT / file
    return link.is_symlink() and not os.path.isabs(os.readlink(link)) and link.read_bytes() == data


def check_model(home):
    hub.repositories["own/chat"] = {path.name: path.read_bytes() for path in MODEL.iterdir() if path.is_file()}
    files = hub.repositories["own/chat"]
    hub.behave()
    code, out, err = run(home, "pull", "own/chat")
    check("pull of a directory", code == 0, err)
    check("pull: prints the model", out.strip().endswith(COMMIT), out)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"):
        check(f"pull: {name}", is_there(home, files[name], "own/chat", name))
    check("pull: nothing that is not read", not (folder(home, "own/chat") / "snapshots" / COMMIT / "train.py").exists())
    check("pull: the ref", (folder(home, "own/chat") / "refs/main").read_text() == COMMIT)
    blobs = {path.name for path in folder(home, "own/chat").glob("blobs/*")}
    check("pull: blobs by digest", git_id(files["config.json"]) in blobs and
          hashlib.sha256(files["model.safetensors"]).hexdigest() in blobs, blobs)
    at_hub = [headers for which, _, headers in hub.requests if which == "hub"]
    at_store = [headers for which, _, headers in hub.requests if which == "store"]
    check("the token goes to the hub", all(h.get("Authorization") == f"Bearer {TOKEN}" for h in at_hub), at_hub)
    check("the token goes nowhere else", at_store and all(TOKEN not in str(h) for h in at_store), at_store)
    hub.behave()
    code, _, err = run(home, "pull", "own/chat")
    check("pull again: nothing is sent", code == 0 and not hub.sent, err)
    code, out, err = run(home, "chat", "own/chat", "What is 3 + 4?", "--greedy")
    check("chat with what was pulled", "3 + 4 = 7" in out, out + err)
    code, out, err = run(home, "list")
    check("list", code == 0 and any(line.endswith(" own/chat") for line in out.splitlines()), out)
    try:
        import huggingface_hub
    except ImportError:
        return
    found = huggingface_hub.try_to_load_from_cache("own/chat", "config.json", cache_dir=home / "hub")
    check("huggingface_hub finds it", found and pathlib.Path(found).read_bytes() == files["config.json"], found)
    report = huggingface_hub.scan_cache_dir(home / "hub")
    check("huggingface_hub has no complaint", not report.warnings and len(report.repos) == 1, report.warnings)


def check_cuts(home, data):
    hub.behave(cut_after=MIB)
    code, _, err = run(home / "cut", "pull", "own/big")
    check("cut at every MiB", code == 0 and is_there(home / "cut", data), err)
    check("cut: each byte is sent once", [first for first, _ in hub.sent] == [i * MIB for i in range(len(hub.sent))] and
          sum(n for _, n in hub.sent) == len(data), hub.sent)

    hub.behave(piece_s=0.1)
    process = start(home / "killed", "pull", "own/big")
    for _ in range(600):
        unfinished = left(home / "killed")[1]
        if unfinished and unfinished[0].stat().st_size > MIB:
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    whole, unfinished, links = left(home / "killed")
    check("killed: nothing looks whole", not whole and not links and len(unfinished) == 1, (whole, unfinished, links))
    size = unfinished[0].stat().st_size
    code, out, _ = run(home / "killed", "list")
    check("killed: list says so", "own/big (a download that was cut)" in out, out)
    hub.behave()
    code, _, err = run(home / "killed", "pull", "own/big")
    check("killed: goes on", code == 0 and is_there(home / "killed", data) and hub.sent == [(size, len(data) - size)], hub.sent)

    hub.behave(cut_after=MIB, no_ranges=True)
    process = start(home / "stubborn", "pull", "own/big")
    time.sleep(1.5)
    hub.how.pop("cut_after")
    _, err = process.communicate(timeout=120)
    check("a server without ranges", process.returncode == 0 and is_there(home / "stubborn", data), err)

    hub.behave(cut_after=MIB, wrong_begin=True)
    code, _, err = run(home / "shifted", "pull", "own/big")
    check("another part than was asked for", code == 0 and is_there(home / "shifted", data), err)

    hub.behave(piece_s=0.02)
    two = [start(home / "two", "pull", "own/big") for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in two]
    check("two at once", all(process.returncode == 0 for process in two) and is_there(home / "two", data), errors)
    check("two at once: one download", sum(n for _, n in hub.sent) == len(data), hub.sent)


def check_lies(home, data):
    for name, how in (("wrong bytes", {"wrong": True}), ("more bytes", {"longer": 7})):
        at = home / name.replace(" ", "-")
        hub.behave(**how)
        code, out, err = run(at, "pull", "own/big")
        if name == "wrong bytes":
            check(f"{name}: refused", code == 1 and "is not the file whose digest" in err, err)
        else:
            check(f"{name}: refused", code == 1 and "more bytes than the file has" in err, err)
        whole, unfinished, links = left(at)
        check(f"{name}: nothing stays", not whole and not links and sum(p.stat().st_size for p in unfinished) == 0,
              (whole, unfinished, links))
        hub.behave()
        code, _, err = run(at, "pull", "own/big")
        check(f"{name}: the next one is right", code == 0 and is_there(at, data), err)
    for bad in ("../../../evil", "/evil", "a/../../evil", "x\\y", "a\nb"):
        hub.behave(listed=[bad])
        code, _, err = run(home / "names", "pull", "own/big")
        check(f"the name {bad!r}: refused", code == 1 and "is no name of a file" in err, err)


def check_unsized(home):
    hub.behave(unsized=True)
    code, _, err = run(home, "pull", "own/chat")
    config = hub.repositories["own/chat"]["config.json"]
    check("no size: pulled by its digest", code == 0 and is_there(home, config, "own/chat", "config.json"), err)
    hub.behave(unsized=True, wrong_small=True)
    code, _, err = run(home / "wrong", "pull", "own/chat")
    check("no size, wrong bytes: refused", code == 1 and "is not the file whose digest" in err, err)


def run_for(seconds, home, model):
    process = start(home, "pull", model)
    try:
        err = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        err = process.communicate()[1] + "(it did not end)"
    return process.returncode, err


def check_endless(home, data):
    """Bodies of redirects and refusals: nobody waits for their ends."""
    for name, how in (("fast", {}), ("slow", {"endless_s": 0.5})):
        hub.behave(endless=404, **how)
        code, err = run_for(40, home / name, "own/none")
        check(f"an endless 404, {name}: refused", code == 1 and "404" in err, err)
    hub.behave(endless=302)
    code, err = run_for(40, home / "redirect", "own/big")
    check("an endless redirect: followed", code == 0 and is_there(home / "redirect", data), err)


    hub.behave(unsized=True, endless_file="config.json")
    code, err = run_for(60, home / "file", "own/chat")
    there = sum(file.stat().st_size for file in (home / "file").rglob("*.incomplete"))
    check("an endless file of unknown size: refused", code == 1 and "tells no size" in err, err)
    check("an endless file of unknown size: removed", there == 0, there)


def check_refusals(home, data):
    hub.behave()
    code, _, err = run(home / "full", "pull", "own/big", limit=2 * MIB)
    check("full disk: said", code == 1 and "the disk cannot take more" in err, err)
    whole, unfinished, links = left(home / "full")
    check("full disk: what came stays", not whole and not links and unfinished[0].stat().st_size == 2 * MIB, unfinished)
    hub.behave()
    code, _, err = run(home / "full", "pull", "own/big")
    check("full disk: goes on", code == 0 and is_there(home / "full", data) and hub.sent[0][0] == 2 * MIB, err)

    code, _, err = run(home / "off", "pull", "own/big", "--endpoint", "http://127.0.0.1:9")
    check("no network: one line", code == 1 and len(err.splitlines()) == 1 and TOKEN not in err, err)
    code, _, err = run(home / "off", "pull", "own/big", HF_HUB_OFFLINE="1")
    check("offline: said", code == 1 and "HF_HUB_OFFLINE" in err, err)
    for status in (401, 403):
        hub.behave(status=status)
        code, _, err = run(home / "off", "pull", "own/none")
        check(f"{status}: what to do", code == 1 and "Repository not found" in err and "HF_TOKEN" in err, err)
    hub.behave()
    code, _, err = run(home / "off", "pull", "own/none")
    check("404", code == 1 and "404" in err, err)
    hub.behave()
    run(home / "off", "pull", "own/none", "--revision", "refs/pr/1#?%20")
    check("a revision is one part of the URL", "/revision/refs%2Fpr%2F1%23%3F%2520?" in hub.requests[0][1], hub.requests)
    code, _, err = run(home / "off", "pull", "not-an-id")
    check("no id", code == 2, err)
    code, _, err = run(home / "off", "chat", "own/big", "x")
    check("chat says how to get it", code == 1 and "qinfer pull own/big" in err, err)
    (home / "off").mkdir(exist_ok=True)
    (home / "off/token").write_text("hf_from_file\n")
    hub.behave()
    run(home / "off", "pull", "own/none", HF_TOKEN="")
    check("the token of hf auth login", hub.requests[0][2].get("Authorization") == "Bearer hf_from_file", hub.requests)


def talk(home, *arguments, answers):
    """What the terminal shows of a person who gives these answers, each after the text that asks for it."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(QINFER, [QINFER, *arguments], {**environment, "HF_HOME": str(home), "HF_ENDPOINT": hub.url,
                                                 "HOME": str(home), "TERM": "xterm"})
    shown, end = "", time.monotonic() + 60
    for asked, answer in answers:
        while asked not in shown and time.monotonic() < end:
            try:
                shown += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break
        os.write(terminal, answer.encode())
    try:
        while time.monotonic() < end and (piece := os.read(terminal, 4096)):
            shown += piece.decode(errors="replace")
    except OSError:  # the other end is closed
        pass
    return os.waitpid(child, 0)[1], shown


def check_offer(home):
    hub.behave()
    status, shown = talk(home, "chat", "own/chat", answers=[("[y/N] ", "n\n")])
    check("chat offers a download: no", status != 0 and not hub.requests, shown)
    status, shown = talk(home, "chat", "own/chat", "--no-history", answers=[("[y/N] ", "y\n"), ("> ", "/bye\r")])
    check("chat offers a download: yes", status == 0 and "MiB/s" in shown, shown)
    check("chat offers a download: it is there", (folder(home, "own/chat") / "refs/main").exists())


def check_selection(home):
    small = b"GGUF" + bytes(100)
    names = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "split/m-BF16-00001-of-00002.gguf", "split/m-BF16-00002-of-00002.gguf",
             "a b?c#d%20\u00e4.gguf"]
    hub.repositories["own/many"] = {name: small + name.encode() for name in names} | {"config.json": b"{}"}
    hub.behave()
    code, _, err = run(home, "pull", "own/many")
    check("several files: a choice", code == 1 and "m-Q4_K_M.gguf, m-Q8_0.gguf, split/m-BF16-00001" in err, err)
    for selection, wanted in (("q4_k_m", names[:1]), ("*Q8_0.gguf", names[1:2]), ("bf16", names[2:4]), ("a b", names[4:])):
        code, out, err = run(home, "pull", f"own/many:{selection}")
        check(f"{selection}: pulled", code == 0 and out.strip().endswith(wanted[0]), out + err)
        check(f"{selection}: all of it", all(is_there(home, small + n.encode(), "own/many", n) for n in wanted))
    code, _, err = run(home, "pull", "own/many:q2")
    check("no such file: names", code == 1 and "m-Q8_0.gguf" in err, err)


def main():
    if "built without libcurl" in run(pathlib.Path("/nonexistent"), "pull", "own/none")[2]:
        print("skipped: machine: qinfer pull was built without libcurl")
        sys.exit(77)
    data = random.Random(1).randbytes(6 * MIB + 12345)
    hub.repositories["own/big"] = {"model.gguf": data, "README.md": b"text"}
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        check_model(home / "model")
        check_cuts(home, data)
        check_lies(home, data)
        check_unsized(home / "unsized")
        check_endless(home / "endless", data)
        check_refusals(home, data)
        check_offer(home / "offer")
        check_selection(home / "many")
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(1 if counts[False] else 0)


main()
