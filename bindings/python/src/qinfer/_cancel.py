"""Requests to stop."""

from __future__ import annotations

import weakref
from contextlib import suppress

from . import _exit
from ._library import Handle, ask, call, expect, handles, lib, pointer


class Cancel(Handle):
    """A request to stop, which calls look at: request() it from any thread. It stays until reset()."""

    _free = "qinfer_cancel_free"

    def __init__(self) -> None:
        self._requested = False
        self._followers: weakref.WeakSet[Cancel] = weakref.WeakSet()
        self._create(lambda out: call(lib.qinfer_cancel_create, out))

    @classmethod
    def of_call(cls, cancel: Cancel | None) -> Cancel:
        """One of a call's own, which a signal or the end of the interpreter may request, and which is requested when
        the caller's is."""
        own = cls()
        if cancel is not None:
            expect(Cancel, cancel)
            _ = cancel.native
        with handles():  # in which other threads go through these
            _of_calls.add(own)
            if cancel is not None:
                cancel._followers.add(own)
        if cancel is not None and cancel._requested:
            own.request()
        return own

    def request(self) -> None:
        self._requested = True
        self._begin()  # and not ask(), which refuses where the interpreter ends
        try:
            lib.qinfer_cancel_request(pointer(self))
        finally:
            self._end()
        with handles():
            followers = list(self._followers)
        for follower in followers:
            follower._request_if_open()

    def _request_if_open(self) -> None:
        """Of a call that another thread may be ending: its Cancel is found until after __del__ has run."""
        with suppress(ValueError):
            self.request()

    def reset(self) -> None:
        self._requested = False
        ask(lib.qinfer_cancel_reset, self)


_of_calls: weakref.WeakSet[Cancel] = weakref.WeakSet()


def _cancel_calls() -> None:
    with handles():
        cancels = list(_of_calls)
    for cancel in cancels:
        cancel._request_if_open()


_exit.requests.append(_cancel_calls)
