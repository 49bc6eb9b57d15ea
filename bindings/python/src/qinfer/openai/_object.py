"""What answers are made of: dicts whose members are attributes, too."""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

T = TypeVar("T", bound="Object")


class Object(dict[str, Any]):
    """A dict whose members are attributes: response.choices[0].message.content. Members that the service gives and that are
    absent read as None. The methods are those of the service's package, whose objects are pydantic's."""

    if not TYPE_CHECKING:  # checkers know the members that are declared

        def __getattr__(self, name: str) -> Any:
            if name in self:
                return self[name]
            if name in members_of(type(self)):
                return None
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def model_dump(
        self,
        *,
        mode: str = "python",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        exclude_none: bool = False,
        by_alias: bool | None = None,
        warnings: bool = True,
    ) -> dict[str, Any]:
        """A plain dict. Members that are absent are there as None, unless one of exclude_unset, exclude_defaults and
        exclude_none is set."""
        out = {} if exclude_unset or exclude_defaults or exclude_none else dict.fromkeys(members_of(type(self)))
        how: dict[str, Any] = {"exclude_unset": exclude_unset, "exclude_defaults": exclude_defaults, "exclude_none": exclude_none}
        for name, value in self.items():
            if not (value is None and (exclude_none or exclude_defaults)):
                out[name] = _dumped(value, mode, how)
        kept = set(out) if include is None else set(include)
        left = set() if exclude is None else set(exclude)
        return {name: value for name, value in out.items() if name in kept and name not in left}

    def model_dump_json(self, *, indent: int | None = None, **how: Any) -> str:
        separators = (",", ":") if indent is None else None
        dumped = self.model_dump(mode="json", **how)
        return json.dumps(dumped, indent=indent, separators=separators, ensure_ascii=False)

    def to_dict(
        self, *, mode: str = "python", exclude_unset: bool = True, exclude_none: bool = False, **how: Any
    ) -> dict[str, Any]:
        how.pop("use_api_names", None)
        return self.model_dump(mode=mode, exclude_unset=exclude_unset, exclude_none=exclude_none, **how)

    def to_json(self, *, indent: int | None = 2, exclude_unset: bool = True, exclude_none: bool = False, **how: Any) -> str:
        how.pop("use_api_names", None)
        return self.model_dump_json(indent=indent, exclude_unset=exclude_unset, exclude_none=exclude_none, **how)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copied = build(type(self), json.loads(self.model_dump_json(exclude_unset=True))) if deep else type(self)(self)
        copied.update(update or {})
        return copied

    @classmethod
    def model_validate(cls, value: Mapping[str, Any]) -> Self:
        return build(cls, value)

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        return build(cls, json.loads(text))


def _dumped(value: Any, mode: str, how: dict[str, Any]) -> Any:
    if isinstance(value, Object) or not isinstance(value, dict) and hasattr(value, "model_dump"):
        return value.model_dump(mode=mode, **how)
    if isinstance(value, list):
        return [_dumped(one, mode, how) for one in value]
    return value


def build(kind: type[T], value: Mapping[str, Any]) -> T:
    """The dicts inside become objects of the classes that the members are declared with."""
    out = kind()
    inner = members_of(kind)
    for name, member in value.items():
        out[name] = _built(inner.get(name, ()), member)
    return out


def _built(kinds: tuple[type[Object], ...], value: Any) -> Any:
    if isinstance(value, list):
        return [_built(kinds, one) for one in value]
    if isinstance(value, dict) and type(value) is dict:
        return build(_kind_of(kinds, value), value)
    return value


def _kind_of(kinds: tuple[type[Object], ...], value: Mapping[str, Any]) -> type[Object]:
    """Of several classes that whose type is the value's."""
    if len(kinds) == 1:
        return kinds[0]
    for kind in kinds:
        if value.get("type") in _types_of(kind):
            return kind
    return Object


@functools.cache
def _types_of(kind: type[Object]) -> tuple[Any, ...]:
    return typing.get_args(typing.get_type_hints(kind).get("type"))


@functools.cache
def members_of(kind: type[Object]) -> dict[str, tuple[type[Object], ...]]:
    """The declared members, and of those that are objects, or lists of them, of which classes."""
    return {name: tuple(_classes_in(hint)) for name, hint in typing.get_type_hints(kind).items()}


def _classes_in(hint: Any) -> Iterator[type[Object]]:
    origin = typing.get_origin(hint)
    if origin in (list, typing.Union, types.UnionType):
        for one in typing.get_args(hint):
            yield from _classes_in(one)
    else:
        found = origin or hint
        if isinstance(found, type) and issubclass(found, Object):
            yield found
