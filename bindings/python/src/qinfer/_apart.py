"""Work on separate threads, for which others wait."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from . import _exit


_UNLOCKED = "release unlocked lock", "cannot release un-acquired lock"
_NO_THREAD = "can't start new thread", "can't create new thread"  # of Python, as the interpreter ends or there is no room


def is_no_thread(failed: BaseException) -> bool:
    """Whether Thread.start() has raised this itself."""
    return isinstance(failed, RuntimeError) and str(failed).startswith(_NO_THREAD)


def start_thread(thread: threading.Thread) -> None:
    """The interpreter does not end before the thread has begun, where Python 3.11 crashes."""
    _exit.calls[thread] = threading.get_ident()
    try:
        _exit.check()
        thread.start()
    except RuntimeError as failed:
        # What a signal's handler raises inside of Thread.start() is hidden where it comes between two lines of Python 3.11's
        # Condition.wait(): the `with` around that releases a lock which is not acquired.
        if failed.__context__ is None or not str(failed).startswith(_UNLOCKED):
            raise
        raise failed.__context__ from None
    finally:
        _exit.calls.pop(thread, None)


class Apart:
    """Work on a thread of its own. Thread.join() takes a thread for ended where a signal's handler raised in it (Python
    3.11); here waiting says nothing but the truth, and may be tried again."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work
        self._done, self._process = False, os.getpid()
        self._begun = threading.Lock()  # whoever acquires it decides whether the work is done at all
        self._running = threading.Lock()  # wakes who waits; a handler that raises may leave it acquired
        self._running.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        start_thread(self._thread)

    def _run(self) -> None:
        work, self._work = self._work, None
        if work is None or not self._begun.acquire(blocking=False):
            return
        try:
            work()
        finally:
            self._done = True
            self._running.release()

    @property
    def over(self) -> bool:
        """Whether the work is done, or its thread is no more: in a child of fork(), and after the interpreter."""
        return self._done or self._process != os.getpid() or sys.is_finalizing()

    @property
    def inside(self) -> bool:
        """Whether this is the thread that does the work."""
        return threading.current_thread() is self._thread

    def wait(self, seconds: float = threading.TIMEOUT_MAX) -> None:
        """Until the work is over, or about as long."""
        while not self.over and seconds > 0:
            if self._running.acquire(timeout=min(0.1, seconds)):
                self._running.release()
            seconds -= 0.1

    def end(self, request: Callable[[], object]) -> BaseException | None:
        """Keeps the work from beginning, or requests its end and waits, whatever handlers of signals raise meanwhile.
        Returns what was raised first."""
        first: BaseException | None = None
        while not self.over:
            try:
                if self._begun.acquire(blocking=False):
                    self._done = True
                    break
                try:
                    request()
                finally:
                    self.wait(0.1)
            except BaseException as raised:  # noqa: BLE001 - the first is returned
                first = first or raised
        return first
