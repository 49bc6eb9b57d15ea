"""qinfer on a cluster of Ray: many rows, many users, or a model that no single machine holds.

`pip install qinfer[ray]` brings Ray. Each part is imported when one of its names is first asked for, so that batch
inference does not need what serving does. docs/ray.md says which part is for what."""

from __future__ import annotations

import importlib
from typing import Any

# What each module has for users.
_PARTS: dict[str, tuple[str, ...]] = {
    "_batch": ("Actors", "batch", "room"),
    "_inference": ("Inference",),
    "_resume": ("done_ids", "remaining"),
    "_serve": ("app",),
    "_stages": ("Pipeline", "Stages", "place"),
}
_MODULES = {name: module for module, names in _PARTS.items() for name in names}
__all__ = list(_MODULES)  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("ray")
    except ImportError as missing:
        raise ImportError(f"{__name__}.{name} needs Ray, which this installs: pip install qinfer[ray]") from missing
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
