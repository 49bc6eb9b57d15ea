"""What a hop between two stages takes alone, on loopback: a frame of one token and its hidden states goes to another process,
which sends it back; half of that time. `python bench/hop.py [-n ROUNDS]`; QINFER_LIBRARY names the library."""

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from array import array

from qinfer.stages._frames import BrokenConnectionError, Connection, Frame, Kind

WIDTHS = 1024, 4096, 8192  # n_embd of models with 0.6, 8 and 70 billion parameters


def echo(listener, key):
    connection = Connection(listener.accept()[0], key, is_server=True)
    try:
        while True:
            connection.send(connection.receive())
    except BrokenConnectionError:
        pass


def hops(connection, width, rounds):
    """Seconds of each."""
    frame = Frame(Kind.STEP, 1, tokens=array("i", [7]), floats=array("f", [0.5]) * width)
    times = []
    for at in range(rounds + 100):
        begun = time.perf_counter()
        connection.send(frame)
        connection.receive()
        if at >= 100:  # the first ones are not like the others
            times.append((time.perf_counter() - begun) / 2)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="round trips of each size")
    args = parser.parse_args()
    key, listener = os.urandom(32), socket.create_server(("127.0.0.1", 0))
    other = multiprocessing.get_context("fork").Process(target=echo, args=(listener, key), daemon=True)
    other.start()
    connection = Connection.open(listener.getsockname(), key)
    for width in WIDTHS:
        times = sorted(1000 * one for one in hops(connection, width, args.n))
        print(f"{4 * width:6} bytes: p50 {statistics.median(times):.4f} ms, p99 {times[len(times) * 99 // 100]:.4f} ms")
    connection.close()
    other.join(5)


if __name__ == "__main__":
    main()
