"""A request for a response, as one for a chat completion. Nothing is stored, so that a request has the whole conversation:
`store` may be asked for, and the response says False; what would need a stored response is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ._checked import Checked, refuse_value, unsupported

_MOST_TOKENS = 2**31 - 1
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_PASSED_OVER = (
    "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "max_tool_calls",
)  # fmt: skip


def _defaults() -> dict[str, Any]:
    """What a response says where nothing was asked for."""
    return {
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
    }


@dataclass
class Asked:
    """chat: the fields of the chat completion. shown: those of the response that say what was asked for."""

    chat: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=_defaults)
    streams: bool = False


class _Messages:
    """Messages of a chat, made of items. Those of an assistant that follow each other are one message."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def _last_of(self, role: str, joins: bool) -> dict[str, Any]:
        if not joins or not self.made or self.made[-1]["role"] != role:
            self.made.append({"role": role, "content": []})
        return self.made[-1]

    def add_text(self, role: str, text: str, joins: bool) -> None:
        self._last_of(role, joins)["content"].append({"type": "text", "text": text})

    def add_reasoning(self, text: str) -> None:
        if text:
            message = self._last_of("assistant", True)
            message["reasoning_content"] = message.get("reasoning_content", "") + text

    def add_call(self, call: str, name: str, arguments: str) -> None:
        made = {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
        self._last_of("assistant", True).setdefault("tool_calls", []).append(made)

    def add_result(self, call: str, text: str) -> None:
        message = self._last_of("tool", False)
        message["tool_call_id"], message["content"] = call, [{"type": "text", "text": text}]

    def take(self) -> list[dict[str, Any]]:
        for message in self.made:
            texts = message["content"]
            if len(texts) == 1:
                message["content"] = texts[0]["text"]
            elif not texts:
                message["content"] = None if "tool_calls" in message else ""
        return self.made


def _texts_of(content: Any, name: str, types: tuple[str, ...]) -> list[str]:
    """The texts of parts of these types."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        refuse_value(name, content, "a text or a list of parts")
    texts = []
    for at, given in enumerate(content):
        part = Checked(given, f"{name}[{at}]")
        kind = part.need_text("type")
        if kind not in types:
            unsupported(f"{name}[{at}]", f"is a part of type {json.dumps(kind[:40])}, only texts are taken")
        texts.append(part.need_text("refusal" if kind == "refusal" else "text"))
        part.pass_over("annotations", "logprobs", "prompt_cache_breakpoint", "parsed")
        part.end()
    return texts


def _add_message(item: Checked, name: str, into: _Messages) -> None:
    role = item.need_text("role")
    if role not in ("user", "assistant", "system", "developer"):
        refuse_value(f"{name}.role", role, "user, assistant, system or developer")
    content = item.need("content", "a text or a list of parts")
    texts = _texts_of(content, f"{name}.content", ("input_text", "output_text", "text", "refusal"))
    item.pass_over("id", "status", "phase")
    for at, text in enumerate(texts or [""]):
        into.add_text(role, text, at > 0 or role == "assistant")


def _add_call(item: Checked, name: str, into: _Messages) -> None:
    item.pass_over("id", "status", "caller", "parsed_arguments")
    call, function = item.need_text("call_id"), item.need_name("name")
    into.add_call(call, function, item.need_text("arguments"))


def _add_call_output(item: Checked, name: str, into: _Messages) -> None:
    item.pass_over("id", "status", "caller", "name")
    call = item.need_text("call_id")
    output = item.need("output", "a text or a list of parts")
    into.add_result(call, "".join(_texts_of(output, f"{name}.output", ("input_text",))))


def _add_reasoning(item: Checked, name: str, into: _Messages) -> None:
    """Its text, or where there is none a summary of it."""
    item.pass_over("id", "status", "encrypted_content")
    text = "".join(_texts_of(item.list_of("content"), f"{name}.content", ("reasoning_text", "text")))
    summary = "".join(_texts_of(item.list_of("summary"), f"{name}.summary", ("summary_text",)))
    into.add_reasoning(text or summary)


_ITEMS = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_call_output,
    "reasoning": _add_reasoning,
}


def _messages_of(fields: Checked) -> list[dict[str, Any]]:
    messages = _Messages()
    instructions = fields.text("instructions")
    if instructions:
        messages.add_text("system", instructions, False)
    given = fields.need("input", "a text or a list of items")
    if isinstance(given, str):
        messages.add_text("user", given, False)
    elif isinstance(given, list) and given:
        for at, one in enumerate(given):
            name = f"input[{at}]"
            item = Checked(one, name)
            kind = item.text("type")
            kind = "message" if kind is None else kind
            if kind not in _ITEMS:
                known = "message, function_call, function_call_output and reasoning"
                unsupported(name, f"is an item of type {json.dumps(kind[:40])}, only {known} are taken")
            _ITEMS[kind](item, name, messages)
            item.end()
    else:
        refuse_value("input", given, "a text or a list of items, not empty")
    return messages.take()


def _add_tools(fields: Checked, asked: Asked) -> None:
    shown, made = [], []
    for at, given in enumerate(fields.list_of("tools")):
        name = f"tools[{at}]"
        tool = Checked(given, name)
        kind = tool.need_text("type")
        if kind != "function":
            ours = 'only tools of type "function" are taken, which the client runs'
            unsupported(f"{name}.type", f"is {json.dumps(kind[:40])}: {ours}")
        function: dict[str, Any] = {"name": tool.need_name("name")}
        description, parameters, strict = tool.text("description"), tool.find("parameters"), tool.boolean("strict")
        if parameters is not None and not isinstance(parameters, dict):
            refuse_value(f"{name}.parameters", parameters, "a JSON schema")
        if tool.boolean("defer_loading"):
            unsupported(f"{name}.defer_loading", "is not supported: all tools are offered")
        tool.pass_over("output_schema")
        tool.end()
        more = {"description": description, "parameters": parameters, "strict": strict}
        function |= {key: value for key, value in more.items() if value is not None}
        made.append({"type": "function", "function": function})
        shown.append({**given, "parameters": parameters, "strict": strict})
    if made:
        asked.chat["tools"], asked.shown["tools"] = made, shown


def _add_tool_choice(fields: Checked, asked: Asked) -> None:
    parallel = fields.boolean("parallel_tool_calls")
    if parallel is not None:
        asked.shown["parallel_tool_calls"] = asked.chat["parallel_tool_calls"] = parallel
    given = fields.find("tool_choice")
    if given is None:
        return
    asked.shown["tool_choice"] = given
    if not isinstance(given, dict):
        if given not in ("auto", "none", "required"):
            refuse_value("tool_choice", given, '"auto", "none", "required" or a function')
        asked.chat["tool_choice"] = given
        return
    choice = Checked(given, "tool_choice")
    kind = choice.need_text("type")
    if kind != "function":
        unsupported("tool_choice.type", f'is {json.dumps(kind[:40])}, only "function" is taken')
    asked.chat["tool_choice"] = {"type": "function", "function": {"name": choice.need_text("name")}}
    choice.end()


def _add_text(fields: Checked, asked: Asked) -> None:
    given = fields.find("text")
    if given is None:
        return
    text = Checked(given, "text")
    text.text("verbosity")
    wanted = text.find("format")
    if wanted is not None:
        form = Checked(wanted, "text.format")
        kind = form.need_text("type")
        if kind == "json_schema":
            named = {"name": form.need_text("name"), "schema": form.need("schema", "a JSON schema")}
            form.text("description")
            strict = form.boolean("strict")
            named |= {} if strict is None else {"strict": strict}
            asked.chat["response_format"] = {"type": kind, "json_schema": named}
        elif kind == "json_object":
            asked.chat["response_format"] = {"type": kind}
        elif kind != "text":
            refuse_value("text.format.type", kind, "text, json_object or json_schema")
        form.end()
        asked.shown["text"]["format"] = wanted
    text.end()


def _add_reasoning_effort(fields: Checked, asked: Asked) -> None:
    given = fields.find("reasoning")
    if given is None:
        return
    reasoning = Checked(given, "reasoning")
    effort = reasoning.one_of("effort", _EFFORTS, "none, minimal, low, medium, high, xhigh or max")
    if effort is not None:
        # Templates know low, medium and high; less is none, and more is high.
        place = _EFFORTS.index(effort)
        asked.chat["reasoning_effort"] = "none" if place < 2 else _EFFORTS[min(place, 4)]
        asked.shown["reasoning"]["effort"] = effort
    for key in ("summary", "generate_summary", "context"):
        reasoning.text(key)
    reasoning.one_of("mode", ("standard",), "standard")
    reasoning.end()


def _check_others(fields: Checked, asked: Asked) -> None:
    fields.boolean("store")
    if fields.boolean("background"):
        unsupported("background", "is not supported: nothing is stored, an answer is given to its request alone")
    for key in ("previous_response_id", "conversation", "prompt"):
        fields.refuse(key, 'nothing is stored, send the whole conversation as "input"')
    fields.refuse("context_management", "nothing of a conversation is cut")
    fields.refuse("moderation", "nothing is moderated")
    fields.one_of("truncation", ("disabled",), '"disabled": nothing of a conversation is cut')
    elsewhere = "is not supported: log probabilities are those of chat.completions"
    if fields.integer("top_logprobs", 0, 20):
        unsupported("top_logprobs", elsewhere)
    for at, one in enumerate(fields.list_of("include")):
        if not isinstance(one, str):
            refuse_value(f"include[{at}]", one, "a text")
        if one == "message.output_text.logprobs":
            unsupported(f"include[{at}]", elsewhere)
    metadata = fields.find("metadata")
    if metadata is not None:
        if not isinstance(metadata, dict):
            refuse_value("metadata", metadata, "an object of texts")
        for key, value in metadata.items():
            if not isinstance(value, str):
                refuse_value(f"metadata.{key[:40]}", value, "a text")
        asked.shown["metadata"] = metadata
    options = fields.find("stream_options")
    if options is not None:
        stream = Checked(options, "stream_options")
        stream.boolean("include_obfuscation")
        stream.end()
    fields.pass_over(*_PASSED_OVER)
    fields.end()


def chat_of(body: dict[str, Any]) -> Asked:
    """`body`: of what JSON has."""
    fields, asked = Checked(body, ""), Asked()
    model = fields.text("model")
    if model is not None:
        asked.chat["model"] = model
    asked.chat["messages"] = _messages_of(fields)
    asked.shown["instructions"] = fields.find("instructions")
    _add_tools(fields, asked)
    _add_tool_choice(fields, asked)
    _add_text(fields, asked)
    _add_reasoning_effort(fields, asked)
    most = fields.integer("max_output_tokens", 1, _MOST_TOKENS)
    if most is not None:
        asked.shown["max_output_tokens"] = asked.chat["max_completion_tokens"] = most
    for key in ("temperature", "top_p"):  # chat completions check them
        value = fields.find(key)
        if value is not None:
            asked.shown[key] = asked.chat[key] = value
    asked.streams = bool(fields.boolean("stream"))
    _check_others(fields, asked)
    asked.chat["stream"], asked.chat["stream_options"] = True, {"include_usage": True}
    return asked
