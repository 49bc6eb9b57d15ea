"""The files of sessions that stages have saved."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from .._cache import KvCache
from .._session import Session

_KEPT_S = 24 * 3600  # seconds, for which files of sessions that nobody has closed are kept


class Saved:
    """The files of sessions: name-first_layer-position.session for what was evaluated of a session up to there."""

    def __init__(self, folder: Path | str | None, cache: KvCache) -> None:
        self._folder, self._cache = None if folder is None else Path(folder), cache
        self._stage = cache.model.info["first_layer"]  # stages may share a directory
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._folder.glob("*.session"):
                with contextlib.suppress(FileNotFoundError):  # the process before this one ends, and forgets it
                    if path.stat().st_mtime < time.time() - _KEPT_S:
                        path.unlink()

    def _path(self, name: str, position: int) -> Path:
        if self._folder is None:
            raise ValueError("the stage saves nothing: it has no directory for it")
        return self._folder / f"{name}-{self._stage}-{position}.session"

    def save(self, session: Session, name: str, position: int) -> None:
        """What is evaluated of it, which is `position` tokens. The file before is kept: the other stages may not have got as
        far. A session without pending tokens would be loaded with its last one pending, for its logits; so it gets one,
        which the next step replaces."""
        path = self._path(name, position)
        if session.pending == 0:
            session.append([0])
        session.save(path)
        for old in self._of(name)[2:]:
            old.unlink(missing_ok=True)

    def load(self, name: str, position: int) -> Session:
        return Session.load(self._cache, self._path(name, position))

    def forget(self, name: str, beyond: int = -1) -> None:
        """Its files, but for those of no more than so many tokens."""
        for path in self._of(name):
            if _position_of(path) > beyond:
                path.unlink(missing_ok=True)

    def _of(self, name: str) -> list[Path]:
        """The newest first."""
        found = list(self._folder.glob(f"{name}-{self._stage}-*.session")) if self._folder is not None else []
        return sorted(found, key=_position_of, reverse=True)


def _position_of(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
