"""What a hop between two stages takes alone, on loopback: a frame of one token and its hidden states goes to another process,
which sends it back; half of that time. Next to it what the same bytes take without frames. Both processes are on one core,
or each is on one of its own, which is idle while it waits: to wake it takes a virtual machine longer than all else.
`python bench/hop.py [-n ROUNDS]`; QINFER_LIBRARY names the library."""

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
    """Frames until the other side leaves, then bytes."""
    connection = Connection(listener.accept()[0], key, is_server=True)
    try:
        while True:
            connection.send(connection.receive())
    except BrokenConnectionError:
        pass
    plain, _ = listener.accept()
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = memoryview(bytearray(1 << 20))
    while n := plain.recv_into(room):
        plain.sendall(room[:n])


def timed(exchange, rounds):
    """Sorted milliseconds of each hop."""
    times = []
    for at in range(rounds + 100):
        begun = time.perf_counter()
        exchange()
        if at >= 100:  # the first ones are not like the others
            times.append(500 * (time.perf_counter() - begun))
    return sorted(times)


def of_frames(connection, width, rounds):
    frame = Frame(Kind.STEP, 1, tokens=array("i", [7]), floats=array("f", [0.5]) * width)

    def exchange():
        connection.send(frame)
        connection.receive()

    return timed(exchange, rounds)


def of_bytes(plain, width, rounds):
    data = bytearray(36 + 4 + 4 * width)

    def exchange():
        plain.sendall(data)
        left = memoryview(data)
        while left:
            left = left[plain.recv_into(left) :]

    return timed(exchange, rounds)


def measure(cores, rounds):
    key, listener = os.urandom(32), socket.create_server(("127.0.0.1", 0))
    other = multiprocessing.get_context("fork").Process(target=echo, args=(listener, key), daemon=True)
    other.start()
    os.sched_setaffinity(other.pid, {cores[1]})
    os.sched_setaffinity(0, {cores[0]})
    connection = Connection.open(listener.getsockname(), key)
    frames = [of_frames(connection, width, rounds) for width in WIDTHS]
    connection.close()
    with socket.create_connection(listener.getsockname()) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bare = [of_bytes(plain, width, rounds) for width in WIDTHS]
    other.join(5)
    print("on one core" if cores[0] == cores[1] else "on two cores")
    for width, times, without in zip(WIDTHS, frames, bare, strict=True):
        print(
            f"{4 * width:6} bytes: p50 {statistics.median(times):.4f} ms, p99 {times[len(times) * 99 // 100]:.4f} ms; "
            f"without frames p50 {statistics.median(without):.4f} ms"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="round trips of each size")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    for other in cores[:2]:
        measure((cores[0], other), args.n)


if __name__ == "__main__":
    main()
