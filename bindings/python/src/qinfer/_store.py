"""Kept keys and values: a folder, in which conversations that go on later find what was computed for them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from . import _abi
from ._cache import KvCache
from ._cancel import Cancel
from ._infos import StoreStats
from ._library import Handle, Held, call, call_apart, encoded, expect, lib, pointer, read_struct, sized, tokens_of
from ._load import Path
from ._session import Session


class KvStore(Handle):
    """A folder with blocks of keys and values, so that a conversation that goes on later, in another process too, is not
    evaluated again. Blocks are found by their tokens and all tokens before them; conversations that begin alike share the
    files of their beginning. For any number of threads.

    cache: one that keeps prefixes, which the store keeps. path: the folder, made for its owner alone where there is none;
    StateError while another store has it, of this process or another. max_bytes: of its files; those used longest ago are
    removed for others. A store that is closed while a call of another thread uses it has its folder until that ends."""

    _free = "qinfer_kv_store_free"
    _instead = "threads may share it, another process opens the folder after it was closed"

    def __init__(self, cache: KvCache, path: Path, max_bytes: int) -> None:
        expect(KvCache, cache)
        self.cache = cache
        options = sized(_abi.qinfer_kv_store_options, max_bytes=max_bytes)
        options.path = encoded(path)
        self._spare: list[Cancel] = []  # of calls that are over: to free one runs Python, where a signal's handler may raise
        self._create(lambda out: call(lib.qinfer_kv_store_open, cache, ctypes.byref(options), out))

    def _cancellable(self, cancel: Cancel | None, work: Callable[[Cancel], None]) -> None:
        """Work with a Cancel of the call's own."""
        try:
            own = Cancel.of_call(cancel) if cancel is not None else self._spare.pop()
        except IndexError:
            own = Cancel.of_call(None)
        with Held(own):
            work(own)
        if cancel is None:  # nothing else refers to it, so that nothing requests it late
            self._spare.append(own)

    def keep(self, session: Session, *, tenant: str = "", cancel: Cancel | None = None) -> int:
        """Writes the full blocks of a session of the cache that are not in the folder, best when its conversation rests;
        returns how many of its tokens are there now, from the first on. Only the same tenant finds them. A session that
        was loaded from a snapshot is UnsupportedError. The GIL is free meanwhile, and the handlers of signals run: after
        Ctrl-C what was written stays."""
        expect(Session, session)
        kept, name = ctypes.c_size_t(), _tenant(tenant)

        def work(own: Cancel) -> None:
            with Held(self, session):
                try:
                    session._apart = True  # for a signal's handler, on this thread
                    call_apart(own, lib.qinfer_kv_store_keep, self, pointer(session), name, own, ctypes.byref(kept))
                finally:
                    session._apart = False

        self._cancellable(cancel, work)
        return kept.value

    def fetch(
        self, tokens: Iterable[int], *, tenant: str = "", prefix_space: int = 0, cancel: Cancel | None = None
    ) -> int:
        """Puts what is known of the tokens into the cache, where evaluations find it: before a session is evaluated.
        Returns how many of the tokens the cache knows now, from the first on and never the last; fewer where it has no
        room or a file is damaged. prefix_space: that of the sessions which find it. The GIL is free meanwhile, and the handlers of signals run."""
        listed, found, name = tokens_of(tokens), ctypes.c_size_t(), _tenant(tenant)

        def work(own: Cancel) -> None:
            arguments = listed, len(listed), name, prefix_space, own, ctypes.byref(found)
            call_apart(own, lib.qinfer_kv_store_fetch_into, self, *arguments)

        self._cancellable(cancel, work)
        return found.value

    @property
    def stats(self) -> StoreStats:
        """Files and bytes that are there (n_files, bytes); files written, read, removed for others and damaged since it
        was opened."""
        return read_struct(StoreStats, _abi.qinfer_kv_store_stats, lib.qinfer_kv_store_get_stats, self)


def _tenant(name: str) -> bytes | None:
    expect(str, name)
    return encoded(name)
