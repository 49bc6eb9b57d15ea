#!/usr/bin/env python3
"""What Python adds to a token: generating with a callback, and as a stream, beside qinfer_generate of the C ABI without one.

    overhead.py [TURNS]

The three take turns; printed are the medians, and the median of the differences within a turn. The model is tiny-stories,
whose tokens cost some 70 us, on one thread.
"""

import ctypes
import pathlib
import statistics
import sys
import time

import qinfer
from qinfer import _abi
from qinfer._library import call, lib, sized

MODEL = pathlib.Path(__file__).resolve().parents[3] / "examples" / "models" / "tiny-stories"
TOKENS = 200


def in_c(session):
    options = sized(_abi.qinfer_generate_options, max_tokens=TOKENS)
    call(lib.qinfer_generate, session, ctypes.byref(options), None)


def with_callback(session):
    pieces = []
    session.generate(TOKENS, on_text=pieces.append)


def as_stream(session):
    for _ in session.stream(TOKENS):
        pass


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    model = qinfer.Model(MODEL, qinfer.Runtime(threads=1))
    prompt = model.tokenize("Once upon a time")
    ways = {"the C ABI": in_c, "with a callback": with_callback, "as a stream": as_stream}
    taken = {name: [] for name in ways}
    session = qinfer.Session(model, max_tokens=TOKENS + 16)
    session.set_bias(dict.fromkeys(model.end_tokens, float("-inf")))
    for turn in range(turns + 2):
        for name, way in ways.items():
            session.truncate(0)
            session.append(prompt)
            session.evaluate()
            begin = time.perf_counter_ns()
            way(session)
            if turn >= 2:  # the first turns fill caches
                taken[name].append((time.perf_counter_ns() - begin) / TOKENS / 1000)
            assert len(session) == len(prompt) + TOKENS
    for name, values in taken.items():
        added = statistics.median(v - c for v, c in zip(values, taken["the C ABI"], strict=True))
        print(f"{name:16} {statistics.median(values):7.1f} us a token, {added:+.2f} us beside C")


main()
