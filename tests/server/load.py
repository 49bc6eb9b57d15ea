#!/usr/bin/env python3
"""A server under load, on loopback: ./dev serve-load, or

  tests/server/load.py --server qinfer-server --command qinfer --model MODEL --models examples/models [PART...]

Parts:
  waiting   1,000 connections that rest and 50 streams that nobody reads, while a prompt of 4,096 tokens is evaluated:
            /health must answer within 50 ms (99th percentile), and all of the server's memory beyond what `qinfer plan`
            says must be at most 64 MiB. MODEL must take such a prompt
  tls       the same with TLS: what it takes is told, and no bound is set
  crowd     64 clients for --seconds, each with one request after another (streams, chats, embeddings, reranking), of
            which a third leave midway: only statuses that a client is told of (200, 429, 503), all blocks free at the
            end, and memory that does not grow
  killed    conversations while the server is ended by kill -9 again and again: with --keep each goes on with the same
            bits

Without a part all of them. Exit status 1 where something is not as it must be. --sanitized: a build under sanitizers,
whose memory and time have no bounds.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from clients import Wire, until, write_reranker  # noqa: E402
from conftest import Server  # noqa: E402

N_RESTING, N_UNREAD, N_LONG, N_RUNNING = 1000, 50, 4096, 64
CACHE = 2 << 30  # bytes, for the prompt and the streams of the model that ./dev serve-load makes
MOST_BEYOND, MOST_HEALTH_S = 64 << 20, 0.05
MOST_GROWTH = 16 << 20  # of a crowd's memory, once it has been there for a while
AGREED = {200, 429, 503}
wrong = []


def check(is_so, what):
    print(("ok     " if is_so else "WRONG  ") + what, flush=True)
    if not is_so:
        wrong.append(what)


def memory(server, what="VmRSS"):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(rf"{what}:\s+(\d+) kB", file.read())[1]) << 10


def mib(n):
    return f"{n / (1 << 20):.1f} MiB"


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def end(server):
    """Its status, and what it has said: of a sanitizer's report both tell."""
    status = server.end()
    said = server.process.stderr.read()
    check(status == 0 and not said, f"it ends with status {status}{': ' + said[-3000:] if said else ''}")


def check_empty(server):
    for name in ["qinfer_num_requests_running", "qinfer_num_requests_waiting", "qinfer_kv_cache_usage_perc",
                 "qinfer_body_bytes"]:
        value = None
        for _ in range(600):
            value = server.metric(name)
            if value == 0:
                break
            time.sleep(0.1)
        check(value == 0, f"{name} is {value:g} at the end")


# ---- Connections that wait, and streams that nobody reads


PROBE = """
import socket, sys, time
port, is_tls = int(sys.argv[1]), sys.argv[2] == "tls"
import ssl
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
connection = socket.create_connection(("127.0.0.1", port), timeout=60)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if is_tls: connection = context.wrap_socket(connection)
print("ready", flush=True)
while True:
    begun = time.monotonic()
    connection.sendall(b"GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    received = b""
    while not received.endswith(b"ok\\n"):
        received += connection.recv(65536)
    print(time.monotonic() - begun, flush=True)
    time.sleep(0.01)
"""


@contextlib.contextmanager
def health(server):
    """Asks for /health a hundred times a second, in a process of its own; at the end the list has the seconds of each."""
    times = []
    process = subprocess.Popen([sys.executable, "-c", PROBE, str(server.port), "tls" if server.is_tls else "plain"],
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    reader = threading.Thread(target=lambda: times.extend(float(line) for line in process.stdout if line.endswith("\n")))
    reader.start()
    try:
        yield times
    finally:
        process.kill()
        process.wait()
        reader.join()


def rest(server):
    """A connection on which a request was answered."""
    wire = Wire(server)
    assert wire.ask("GET", "/health")[0] == 200
    return wire


def unread(server, i):
    """A stream whose client takes nothing of it: its request pauses once half a megabyte waits."""
    connection = server.open(60, 8192)
    body = json.dumps({"prompt": [100 + i] * 8, "max_tokens": 1000, "temperature": 1, "logprobs": 20, "stream": True,
                       "logit_bias": {str(token): -100 for token in range(1270, 1280)}})
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body.encode())
    return connection


def planned(options):
    """Bytes that the plan has besides the cache, for as many sessions as run."""
    command = [options.command, "plan", options.model, "--sessions", str(N_RUNNING), "--prefix", "--json"]
    bytes_of = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return bytes_of["total"] - bytes_of["kv_cache_bytes"]


def memory_without_cache(server, cache):
    """Of the cache, which is one mapping, the system has given what was used."""
    held = 0
    with open(f"/proc/{server.process.pid}/smaps") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "Size":
                size = int(value.split()[0]) << 10
            elif name == "Rss" and size < cache // 2:
                held += int(value.split()[0]) << 10
    return held


def evaluate_long(server, cache):
    """The seconds that a long prompt took, those of each look at /health, and the most memory beside the cache."""
    long = {"prompt": [random.randrange(200, 1000) for _ in range(N_LONG)], "max_tokens": 2}
    ended, held = threading.Event(), [memory_without_cache(server, cache)]

    def look():
        while not ended.wait(0.3):
            held.append(memory_without_cache(server, cache))

    looking = threading.Thread(target=look)
    with health(server) as times, Wire(server, 600) as wire:
        looking.start()
        begun = time.monotonic()
        status, _, answer = wire.ask("POST", "/v1/completions", json.dumps(long).encode())
        seconds = time.monotonic() - begun
    ended.set()
    looking.join()
    check(status == 200, f"a prompt of {N_LONG} tokens took {seconds:.1f} s"
          + (f": {status} {answer[:200]}" if status != 200 else ""))
    return times, max(held)


def waiting(options, tls=()):
    server = Server(options.server, options.model, "--max-connections", "2000", "--cache-bytes", str(CACHE),
                    "--slow-s", "600", "--max-running", str(N_RUNNING), *tls, threads=options.threads)
    with contextlib.ExitStack() as stack:
        at_start = memory_without_cache(server, CACHE)
        resting = [stack.enter_context(rest(server)) for _ in range(N_RESTING)]
        with_resting = memory_without_cache(server, CACHE)
        for i in range(N_UNREAD):
            stack.enter_context(unread(server, i))
        time.sleep(options.settle)
        until(lambda: server.metric("qinfer_num_requests_running") >= N_UNREAD, 600)
        with_unread, n_paused = memory_without_cache(server, CACHE), server.metric("qinfer_connections_slow")
        times, most = evaluate_long(server, CACHE)
        beyond = most - planned(options)
        per = (with_resting - at_start) / N_RESTING / 1024
        told = f"/health p50 {1000 * percentile(times, 0.5):.2f} ms, p99 {1000 * percentile(times, 0.99):.2f} ms, " \
               f"most {1000 * max(times):.1f} ms of {len(times)}"
        held = f"memory beside the cache {mib(at_start)} at start, {mib(with_resting)} with {N_RESTING} resting " \
               f"({per:.1f} KiB each), {mib(with_unread)} with {N_UNREAD} unread " \
               f"({n_paused:g} paused), {mib(most)} at most: {mib(beyond)} " \
               "beyond the plan"
        if tls or options.sanitized:
            print("told   " + told + "\ntold   " + held, flush=True)
        else:
            check(percentile(times, 0.99) <= MOST_HEALTH_S, told)
            check(beyond <= MOST_BEYOND, held)
        answers = [wire.ask("GET", "/health") for wire in resting]  # one that has rested for too long has none
        check(all(answer is None or answer[0] == 200 for answer in answers), "those that rest can ask again")
    check_empty(server)
    end(server)


# ---- A crowd


class Client(threading.Thread):
    """One request after another, of all kinds; one that leaves closes its connection in the middle of some."""

    def __init__(self, servers, index, ends_at):
        super().__init__(daemon=True)
        self.servers, self.ends_at, self.leaves = servers, ends_at, index % 3 == 0
        self.random, self.statuses, self.n_left, self.failed = random.Random(index), [], 0, None

    def request(self):
        story = " ".join(self.random.choices(["a dog", "a cat", "and then", "the ball", "she said"], k=self.random.randrange(60)))
        kind = self.random.choices(["stream", "completion", "chat", "embeddings", "rerank", "messages"], [4, 2, 2, 1, 1, 1])[0]
        stories, chat = self.servers
        talk = [{"role": "user", "content": f"Hello {story[:80]}"}]
        n = self.random.randrange(1, 120)
        more = {"seed": self.random.randrange(1000), "temperature": self.random.choice([0, 0.8])}
        if kind == "embeddings":
            return stories, "/v1/embeddings", {"input": [story or "a"] * self.random.randrange(1, 4)}
        if kind == "rerank":
            return stories, "/v1/rerank", {"query": "a dog", "documents": [story or "a", "a cat"] * self.random.randrange(1, 4)}
        if kind == "chat":
            return chat, "/v1/chat/completions", {"messages": talk, "max_tokens": n, "stream": self.random.random() < 0.5, **more}
        if kind == "messages":
            return chat, "/v1/messages", {"messages": talk, "max_tokens": n, "stream": self.random.random() < 0.5}
        body = {"prompt": f"Once {story}", "max_tokens": n, "stream": kind == "stream", "n": self.random.choice([1, 1, 2]), **more}
        if self.random.random() < 0.1:
            body.update(echo=True, logprobs=2)
        return stories, "/v1/completions", body

    def run(self):
        try:
            while time.monotonic() < self.ends_at:
                self.ask(*self.request())
        except Exception as failed:  # told at the end
            self.failed = f"{type(failed).__name__}: {failed}"

    def ask(self, server, path, body):
        data = json.dumps(body).encode()
        with Wire(server, 300) as wire:
            if self.leaves and self.random.random() < 0.5:
                wire.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)))
                wire.send(data[:self.random.choice([len(data), len(data) // 2])])
                time.sleep(self.random.random() * 0.2)
                self.n_left += 1
                return
            answer = wire.ask("POST", path, data)
        if answer is None:
            raise RuntimeError(f"{path} has no answer")
        self.statuses.append(answer[0])
        if answer[0] not in AGREED:
            raise RuntimeError(f"{path} {answer[0]} {answer[2][:300]} for {data[:300]}")
        if answer[0] != 200:
            assert b"\r\nRetry-After: " in answer[1], answer[1]
            time.sleep(0.2)


def crowd(options):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model").mkdir()
        models = [write_reranker(options.models, folder / "model"), f"{options.models}/tiny-chat"]
        servers = [Server(options.server, model, "--cache-bytes", "8MiB", "--max-waiting", "32", "--park",
                          str(folder / f"parked{i}"), "--keep", str(folder / f"kept{i}"), "--keep-bytes", "64MiB")
                   for i, model in enumerate(models) if (folder / f"parked{i}").mkdir() is None]
        clients = [Client(servers, i, time.monotonic() + options.seconds) for i in range(64)]
        for client in clients:
            client.start()
        held = []
        while any(client.is_alive() for client in clients):
            held.append([memory(server) for server in servers])
            time.sleep(min(1, options.seconds / 20))
        failed = [client.failed for client in clients if client.failed]
        statuses = [status for client in clients for status in client.statuses]
        counts = {status: statuses.count(status) for status in sorted(set(statuses))}
        check(not failed, f"64 clients for {options.seconds} s: statuses {counts}, {sum(c.n_left for c in clients)} left midway"
              + "".join(f"\n       {what}" for what in failed[:5]))
        for i, server in enumerate(servers):
            check_empty(server)
            third = len(held) // 3
            early, late = max(h[i] for h in held[third:2 * third]), max(h[i] for h in held[2 * third:])
            told = f"memory of server {i}: {mib(early)} at most in the second third, {mib(late)} in the last"
            print("told   " + told) if options.sanitized else check(late - early <= MOST_GROWTH, told)
            end(server)


# ---- kill -9


def turn(server, prompt, seed):
    """A text, its log probabilities, and how much of its prompt was there."""
    body = {"prompt": prompt, "max_tokens": 24, "temperature": 0.8, "seed": seed, "logprobs": 2, "logit_bias": {"2": -100}}
    status, answer = server.post("/v1/completions", **body)
    assert status == 200, answer
    [choice] = answer["choices"]
    return choice["text"], choice["logprobs"]["token_logprobs"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def killed(options):
    chosen = random.Random(7)
    n, rounds = 8, 4
    prompts = [f"{i} Once upon a time there was " + "a little dog who liked to play. " * 6 for i in range(n)]
    model = f"{options.models}/tiny-stories"
    n_same = n_cached = 0
    with tempfile.TemporaryDirectory() as folder:
        plain = Server(options.server, model)
        keeping = Server(options.server, model, "--keep", f"{folder}/kept")
        for number in range(rounds):
            for i in range(n):
                turn(keeping, prompts[i], number)
            until(lambda: keeping.metric("qinfer_kept_files_written_total") > 0)
            # In the middle of what is drawn and written.
            threads = [threading.Thread(target=interrupted_turn, args=(keeping, prompts[i])) for i in range(n)]
            for thread in threads:
                thread.start()
            time.sleep(chosen.random() * 0.3)
            keeping.process.send_signal(signal.SIGKILL)
            keeping.process.wait()
            keeping.process.stderr.close()
            for thread in threads:
                thread.join()
            keeping = Server(options.server, model, "--keep", f"{folder}/kept")
            for i in range(n):
                text, logprobs, cached = turn(keeping, prompts[i], number)
                same = turn(plain, prompts[i], number)
                n_same += (text, logprobs) == same[:2]
                n_cached += cached > 0
                prompts[i] += text
                if len(prompts[i]) > 1200:
                    prompts[i] = prompts[i][:300]
        check(n_same == n * rounds, f"kill -9 {rounds} times: {n_same} of {n * rounds} turns after it have the same bits, "
              f"{n_cached} found what was kept")
        check(n_cached >= n * rounds // 2, "most conversations find what was kept")
        damaged = keeping.metric("qinfer_kept_failures_total")
        check(damaged == 0, f"qinfer_kept_failures_total is {damaged:g}")
        for server in (keeping, plain):
            check_empty(server)
            end(server)


def interrupted_turn(server, prompt):
    """One that the server's end cuts: it may have answered before."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        server.post("/v1/completions", prompt=prompt, max_tokens=100, logit_bias={"2": -100})


# ---- All


def certificate(folder):
    files = f"{folder}/localhost.pem", f"{folder}/localhost.key"
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2",
                    "-subj", "/CN=localhost", "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    os.chmod(files[1], 0o600)
    return "--tls-cert", files[0], "--tls-key", files[1]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--server", required=True, help="qinfer-server")
    parser.add_argument("--command", help="qinfer, which tells the plan")
    parser.add_argument("--model", help="one that takes a prompt of 4,096 tokens")
    parser.add_argument("--models", default="examples/models", help="folder of the small models")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=20, help="seconds that streams have before the prompt comes")
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if (not options.parts or {"waiting", "tls"} & set(options.parts)) and not (options.model and options.command):
        parser.error("waiting and tls need --model and --command")
    return options


def with_tls(options):
    with tempfile.TemporaryDirectory() as folder:
        waiting(options, certificate(folder))


PARTS = {"waiting": waiting, "tls": with_tls, "crowd": crowd, "killed": killed}


def main():
    options = parse()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    for name in options.parts or PARTS:
        print(f"== {name}", flush=True)
        PARTS[name](options)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
