"""Access to the fields of a JSON object by name and type. What is wrong is refused by name, and so is a field that was not
asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import _abi
from .._errors import FormatError
from ._fields import refused


def refuse_value(name: str, value: Any, expected: str) -> NoReturn:
    """The field is this, and something else was expected."""
    if isinstance(value, (dict, list)):
        kind = "object" if isinstance(value, dict) else "list"
        shown = ("an empty " if not value else "an " if kind == "object" else "a ") + kind
    else:
        shown = json.dumps(value[:40] + "..." if isinstance(value, str) and len(value) > 40 else value, ensure_ascii=False)
    _refuse_format(f'"{name}" is {shown}, expected {expected}')


def _refuse_format(message: str) -> NoReturn:
    raise FormatError("QINFER_E_FORMAT", _abi.QINFER_E_FORMAT, f"request: {message}", 0)


def unsupported(name: str, message: str) -> NoReturn:
    raise refused(f'request: "{name}" {message}')


class Checked:
    """An object; `name`: of it in messages, "" for the request. None is as if a field were not there."""

    def __init__(self, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            refuse_value(name, value, "an object")
        self._value, self._name = value, name
        self._known: set[str] = set()

    def name_of(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def find(self, key: str) -> Any:
        self._known.add(key)
        return self._value.get(key)

    def need(self, key: str, expected: str) -> Any:
        value = self.find(key)
        if value is None:
            _refuse_format(f'"{self.name_of(key)}" is missing, expected {expected}')
        return value

    def text(self, key: str) -> str | None:
        value = self.find(key)
        if value is not None and not isinstance(value, str):
            refuse_value(self.name_of(key), value, "a text")
        return value

    def need_text(self, key: str) -> str:
        value = self.need(key, "a text")
        if not isinstance(value, str):
            refuse_value(self.name_of(key), value, "a text")
        return value

    def need_name(self, key: str) -> str:
        value = self.need_text(key)
        if not value:
            refuse_value(self.name_of(key), value, "a name")
        return value

    def boolean(self, key: str) -> bool | None:
        value = self.find(key)
        if value is not None and not isinstance(value, bool):
            refuse_value(self.name_of(key), value, "true or false")
        return value

    def integer(self, key: str, least: int, most: int) -> int | None:
        value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            refuse_value(self.name_of(key), value, f"an integer from {least} to {most}")
        return value

    def list_of(self, key: str) -> list[Any]:
        value = self.find(key)
        if value is not None and not isinstance(value, list):
            refuse_value(self.name_of(key), value, "a list")
        return value or []

    def one_of(self, key: str, choices: Sequence[str], expected: str) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            refuse_value(self.name_of(key), value, expected)
        return value

    def pass_over(self, *keys: str) -> None:
        """Fields that change nothing."""
        self._known.update(keys)

    def refuse(self, key: str, reason: str) -> None:
        if self.find(key) is not None:
            unsupported(self.name_of(key), f"is not supported: {reason}")

    def end(self) -> None:
        """Refuses what was not asked for."""
        for key, value in self._value.items():
            if value is not None and key not in self._known:
                unsupported(self.name_of(key[:40]), "is not a field that is known here")
