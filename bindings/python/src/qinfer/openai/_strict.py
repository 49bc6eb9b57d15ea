"""Schemas of classes, closed as the service wants them where "strict" is set. (Those that a request states itself are
closed by the library.)"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_ONES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def closed(schema: Any, *, requires_all: bool = False) -> Any:
    """The schema with no other properties than those that it names, in each object that says nothing of others;
    requires_all: each property is required."""
    if isinstance(schema, list):
        return [closed(one, requires_all=requires_all) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for key in _LISTS:
        if isinstance(out.get(key), list):
            out[key] = [closed(one, requires_all=requires_all) for one in out[key]]
    for key in _MAPS:
        if isinstance(out.get(key), Mapping):
            out[key] = {name: closed(one, requires_all=requires_all) for name, one in out[key].items()}
    for key in _ONES:
        if isinstance(out.get(key), (Mapping, list)):
            out[key] = closed(out[key], requires_all=requires_all)
    kind = out.get("type")
    if kind == "object" or isinstance(kind, list) and "object" in kind or isinstance(out.get("properties"), Mapping):
        if "allOf" not in out:  # whose parts have properties that this one does not name
            out.setdefault("additionalProperties", False)
        if requires_all and isinstance(out.get("properties"), Mapping):
            out["required"] = list(out["properties"])
    return out


def schema_of(kind: Any) -> dict[str, Any]:
    """The closed schema of a class of pydantic's kind, with model_json_schema(). TypeError for others."""
    if not inspect.isclass(kind) or not hasattr(kind, "model_json_schema"):
        raise TypeError(f"response_format is {kind!r:.80}, expected a dict or a class with model_json_schema(), as pydantic's")
    schema: dict[str, Any] = closed(_without_defaults(kind.model_json_schema()), requires_all=True)
    return schema


def _without_defaults(schema: Any) -> Any:
    """A default has no meaning where all properties are required. Names of properties are not keywords."""
    if isinstance(schema, list):
        return [_without_defaults(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    out = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            out[key] = {name: _without_defaults(one) for name, one in value.items()}
        elif key in ("enum", "const", "examples"):
            out[key] = value
        elif key != "default":
            out[key] = _without_defaults(value)
    return out


def format_of(kind: Any) -> dict[str, Any]:
    """A response_format for answers that become objects of the class."""
    schema = schema_of(kind)
    return {"type": "json_schema", "json_schema": {"name": kind.__name__, "strict": True, "schema": schema}}


def pydantic_function_tool(model: Any, *, name: str | None = None, description: str | None = None) -> dict[str, Any]:
    """A tool whose arguments are objects of the class, which parse() makes of them."""
    schema = schema_of(model)
    text = description or inspect.cleandoc(model.__doc__) if description or model.__doc__ else None
    function: dict[str, Any] = {"name": name or model.__name__, "strict": True, "parameters": schema}
    tool = _Tool(type="function", function={**function, **({"description": text} if text else {})})
    tool.model = model
    return tool


class _Tool(dict[str, Any]):
    """A tool that knows the class of its arguments."""

    model: Any = None


def parsed_by(kind: Any, text: str) -> Any:
    """The object of a class that JSON stands for."""
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(text)
    return json.loads(text)


def models_of(tools: Any) -> dict[str, Any]:
    """The classes of the arguments of tools, by the names of the tools."""
    return {tool["function"]["name"]: tool.model for tool in tools or () if isinstance(tool, _Tool)}
