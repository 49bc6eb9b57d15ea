"""A stage as a server: it evaluates what comes with its layers, and passes it on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from .._apart import start_thread
from .._cache import KvCache
from ._chain import Chain
from ._frames import Connection
from ._saved import Saved

Address = tuple[str, int]
_MOST_PROOFS = 64  # connections that have not proved yet that they have the key


class StageServer:
    """Listens for heads and for the stages before it. `cache` is one of a model with layers=...; serve() answers until
    close(), each connection on threads of its own. `snapshots` is a directory in which it saves sessions of pipelines that
    ask for it, so that they can go on after a stage was lost: two files for each session, until it is closed. `log` gets a
    line for each connection that ends with an error."""

    def __init__(
        self,
        cache: KvCache,
        key: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        snapshots: Path | str | None = None,
        most_connections: int = 16,
        log: Callable[[str], object] = lambda line: None,
    ) -> None:
        if len(key) < 16:
            raise ValueError(f"the key has {len(key)} bytes, expected 16 or more")
        self.cache, self._key, self._log = cache, key, log
        self._saved = Saved(snapshots, cache)
        self._listener = socket.create_server((host, port))
        self.address: Address = self._listener.getsockname()[:2]
        self._places = threading.BoundedSemaphore(most_connections)
        self._proofs = threading.BoundedSemaphore(_MOST_PROOFS)
        self._chains: set[Chain] = set()
        self._lock = threading.Lock()
        self._closing = False

    def serve(self) -> None:
        """Until close() is called."""
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                continue
            if not self._proofs.acquire(blocking=False):
                self._log("a connection is refused: too many have not proved that they have the key")
                accepted.close()
                continue
            try:
                start_thread(threading.Thread(target=self._answer, args=(accepted,), daemon=True))
            except BaseException:
                accepted.close()
                self._proofs.release()
                raise

    def _answer(self, accepted: socket.socket) -> None:
        try:
            try:
                connection = Connection(accepted, self._key, is_server=True)
            finally:
                self._proofs.release()
            if self._places.acquire(blocking=False):
                try:
                    self._run(connection)
                finally:
                    self._places.release()
            else:
                connection.close()
                self._log("a connection is refused: there are too many")
        except Exception as ended:  # noqa: BLE001 - of this connection, and of no other one
            self._log(f"a connection ended: {ended}")

    def _run(self, connection: Connection) -> None:
        chain = Chain(self.cache, connection, self._key, self._saved, self._log)
        with self._lock:
            self._chains.add(chain)
            if self._closing:
                chain.close()
        try:
            chain.run()
        finally:
            with self._lock:
                self._chains.discard(chain)

    def close(self) -> None:
        """Ends serve() and all connections; heads see them broken."""
        with self._lock:
            self._closing = True
            chains = list(self._chains)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for chain in chains:
            chain.close()
