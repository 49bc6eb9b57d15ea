"""What stages give to several sessions: the tokens a second of two or more on two stages, each a process with one thread on
a core of its own, and those of one session after the other on the whole model with one thread, on one core; in turns.
`python bench/stages.py MODEL --cut LAYER [--sessions N] [--tokens N] [--rounds N] [--cores A B]`; QINFER_LIBRARY names the
library."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import qinfer
from qinfer.stages import Pipeline


def stage(model, layers, key_file, core):
    """The process, and where it listens."""
    command = [sys.executable, "-m", "qinfer.stages", model, "--layers", layers, "--key-file", key_file, "--threads", "1"]
    process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().split()[-1]
    host, port = address.rsplit(":", 1)
    return process, (host, int(port))


def draw(session, prompt, tokens):
    session.append(prompt)
    for _ in range(tokens):
        session.draw()


def together(pipeline, prompts, tokens):
    """Tokens a second of a session for each prompt."""
    sessions = [pipeline.session(max_tokens=len(prompt) + tokens + 1) for prompt in prompts]
    threads = [threading.Thread(target=draw, args=(s, p, tokens)) for s, p in zip(sessions, prompts, strict=True)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begun
    for session in sessions:
        session.close()
    return len(prompts) * tokens / taken


def alone(model, prompts, tokens):
    """The same on the whole model, one session after the other."""
    taken = 0.0
    for prompt in prompts:
        with qinfer.Session(model, max_tokens=len(prompt) + tokens + 1) as session:
            begun = time.perf_counter()
            session.append(prompt)
            for _ in range(tokens):
                session.evaluate()
                session.sample()
            taken += time.perf_counter() - begun
    return len(prompts) * tokens / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--cut", type=int, required=True, help="the first layer of the second stage")
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, nargs=2, default=[0, 1])
    args = parser.parse_args()
    whole = qinfer.Model(args.model, qinfer.Runtime(threads=1))
    layers = whole.info["n_layers"]
    prompts = [[(7 * i + at) % 1000 + 1 for i in range(16)] for at in range(args.sessions)]
    with tempfile.NamedTemporaryFile() as key_file:
        key = os.urandom(32).hex().encode()
        key_file.write(key)
        key_file.flush()
        ranges = f"0:{args.cut}", f"{args.cut}:{layers}"
        started = [stage(args.model, r, key_file.name, core) for r, core in zip(ranges, args.cores, strict=True)]
        try:
            ratios = []
            with Pipeline(whole, [address for _, address in started], key) as pipeline:
                for round_ in range(args.rounds):
                    os.sched_setaffinity(0, {args.cores[0]})
                    one = alone(whole, prompts[:2], args.tokens)
                    os.sched_setaffinity(0, set(args.cores))
                    two = together(pipeline, prompts, args.tokens)
                    ratios.append(two / one)
                    print(f"round {round_ + 1}: {one:.2f} tokens/s on one core, {two:.2f} on two stages: {two / one:.3f}")
            print(f"median {statistics.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]")
        finally:
            for process, _ in started:
                process.terminate()
            for process, _ in started:
                process.wait(30)


if __name__ == "__main__":
    main()
