"""The end of the interpreter: calls of other threads are cancelled, and waited for.

After that Python ends each thread that comes back to it. Where it is 3.13 or earlier it does so by pthread_exit(), and
a thread that is in a callback takes the process with it, since its stack has frames of C++.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time
from collections.abc import Callable
from threading import get_ident
from types import CodeType

# Seconds: calls end where they look at a Cancel, after a layer of the model at the latest, or when they are done. A
# callback that does not return is perhaps waiting for something that will not come any more. It gets SystemExit after
# half of its time.
TO_END, TO_RETURN = 10.0, 2.0

calls: dict[object, int] = {}  # those that run, with their threads
callbacks: set[CodeType] = set()  # what every callback goes through
requests: list[Callable[[], object]] = []  # what cancels calls that run
refusing = False  # whether callbacks end their calls at once
_ending: int | None = None  # the thread that ends the interpreter, once it does


def begun() -> bool:
    return _ending is not None


def check() -> None:
    """Ends this thread if another one ends the interpreter: SystemExit, of which Python prints nothing in a thread."""
    if _ending is not None and _ending != get_ident():
        raise SystemExit("the interpreter ends: other threads can make no calls of qinfer any more")


def _others() -> set[int]:
    return set(calls.copy().values()) - {_ending}


def _in_callback(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code not in callbacks:
        frame = frame.f_back
    return frame is not None


def _interrupt(threads: set[int]) -> None:
    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


def _wait() -> BaseException | None:
    """Until no other thread is in a call, or too long. What handlers of signals raise does not end it: the first is
    returned."""
    first: BaseException | None = None
    begin, interrupted = time.monotonic(), False
    while True:
        try:
            seconds, others = time.monotonic() - begin, _others()
            if not others or seconds > TO_END or (seconds > TO_RETURN and all(map(_in_callback, others))):
                return first
            if seconds > TO_RETURN / 2 and not interrupted:
                interrupted = True
                _interrupt(set(filter(_in_callback, others)))
            for request in requests:  # again, since a call may just have begun
                request()
            time.sleep(0.001)
        except BaseException as raised:  # noqa: BLE001 - raised again by the caller
            first = first or raised


def _end_calls() -> None:
    global _ending, refusing
    _ending, refusing = get_ident(), True
    first = _wait()
    refusing = bool(_others())
    if first is not None:
        raise first


atexit.register(_end_calls)
os.register_at_fork(after_in_child=calls.clear)
