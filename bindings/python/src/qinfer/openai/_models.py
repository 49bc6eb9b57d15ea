"""Which model a request's name stands for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from .. import _abi
from .._cache import KvCache
from .._engine import Engine
from .._errors import NoMemoryError, NotFoundError
from .._library import expect
from .._load import Path
from .._model import Model, model_of
from ._answers import Model as Listed
from ._answers import ModelPage
from ._object import build

Source = Model | Path | Engine


_CONTEXTS = 4  # that a client's cache has room for, in half of the free memory at most


def _cache_for(model: Model) -> KvCache:
    """With room for some requests that are promised the model's whole context, or at least for one. Memory is taken when it
    is first used."""
    cache = KvCache(model, prefix=True)
    one = cache.stats["bytes_reserved"]
    budget = min(_CONTEXTS * one, model.memory["system_available"] // 2)
    if budget <= one:
        return cache
    try:
        return KvCache(model, budget_bytes=budget, prefix=True)
    except NoMemoryError:  # of the model's own budget
        return cache


class Models:
    """The models of a client and of what with_options() makes of it. Each is loaded when it is first asked for; the engine of
    one that is no Engine keeps what it has evaluated, of which a conversation that goes on takes what it can."""

    def __init__(self, model: Source | None, named: Mapping[str, Source], takes_paths: bool) -> None:
        self._only, self._named, self._takes_paths = model, dict(named), takes_paths
        self._loaded: dict[str | None, Model] = {}
        self._engines: dict[str | None, Engine] = {}
        self._made: list[Engine] = []
        self._begun = int(time.time())
        self._lock = threading.Lock()

    def model_of(self, name: Any) -> Model:
        """Without an engine, which an encoder has no use for."""
        with self._lock:
            return self._model(self._key(name), name)

    def engine_of(self, name: Any) -> Engine:
        with self._lock:
            key = self._key(name)
            model = self._model(key, name)
            if key not in self._engines:
                self._engines[key] = Engine(_cache_for(model))
                self._made.append(self._engines[key])
            return self._engines[key]

    def _key(self, name: Any) -> str | None:
        return None if self._only is not None else self._source_of(name)[0]

    def _model(self, key: str | None, name: Any) -> Model:
        if key not in self._loaded:
            source = self._only if self._only is not None else self._source_of(name)[1]
            if isinstance(source, Engine):
                self._engines[key] = source
                source = source.model
            model = model_of(source)
            expect(Model, model)
            self._loaded[key] = model
        return self._loaded[key]

    def is_ready(self, name: Any) -> bool:
        """Whether none need be loaded."""
        return isinstance(self._only, (Model, Engine)) or (None if self._only is not None else str(name)) in self._loaded

    def _source_of(self, name: Any) -> tuple[str, Source]:
        text = os.fspath(name) if name is not None else ""
        if text in self._named:
            return text, self._named[text]
        default = os.environ.get("QINFER_MODEL") if self._takes_paths else None
        if self._takes_paths and text and (os.path.exists(text) or not default and "/" in text):
            return text, text
        if default:
            return default, default
        known = ", ".join(self._named) or "none"
        message = (
            f"model is {text!r}, which is no file or directory, and none of the names that are known ({known}): give "
            "OpenAI(model=PATH), OpenAI(models={NAME: PATH}), or QINFER_MODEL in the environment"
        )
        raise NotFoundError("QINFER_E_NOT_FOUND", _abi.QINFER_E_NOT_FOUND, message, 0)

    def listed(self) -> ModelPage:
        names = list(self._named)
        if self._only is not None:
            names.append(self._name_of(self._only))
        elif self._takes_paths and os.environ.get("QINFER_MODEL"):
            names.append(os.environ["QINFER_MODEL"])
        names += [name for name in self._loaded if name is not None and name not in names]
        data = [{"id": name, "object": "model", "created": self._begun, "owned_by": "qinfer"} for name in names]
        return build(ModelPage, {"object": "list", "data": data})

    def found(self, name: str) -> Listed:
        for one in self.listed():
            if one.id == name:
                return one
        raise NotFoundError("QINFER_E_NOT_FOUND", _abi.QINFER_E_NOT_FOUND, f"no model is called {name!r}", 0)

    def _name_of(self, source: Source) -> str:
        if isinstance(source, (str, os.PathLike)):
            return os.fspath(source)
        model = source.model if isinstance(source, Engine) else source
        return str(model.info["name"]) or "local"

    def close(self) -> None:
        """Of the engines that were made here."""
        with self._lock:
            for engine in self._made:
                engine.close()
            self._made.clear()
            self._engines.clear()
            self._loaded.clear()
