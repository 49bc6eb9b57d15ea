"""What a chat completion gives, as the events of a response, and the response itself."""

from __future__ import annotations

import time
import typing
from typing import Any

from ._answers import ChatCompletionChunk
from ._object import Object, build
from ._responses_request import Asked
from ._responses_types import Response, ResponseStreamEvent

_CLASSES: dict[str, type[Object]] = {
    typing.get_args(typing.get_type_hints(kind)["type"])[0]: kind for kind in typing.get_args(ResponseStreamEvent)
}
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}
_PARTS = {"reasoning": "reasoning_text", "message": "output_text"}


class Events:
    """Takes the chunks of a chat completion."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._response: dict[str, Any] = {}
        self._open: dict[str, Any] | None = None  # the item whose text comes
        self._text: list[str] = []
        self._finish = ""
        self._told: list[ResponseStreamEvent] = []
        self._n_told = 0

    def add(self, chunk: ChatCompletionChunk) -> list[ResponseStreamEvent]:
        if not self._response:
            self._begin(chunk)
        for choice in chunk.choices:
            if choice.delta.reasoning_content:
                self._add_text("reasoning", choice.delta.reasoning_content)
            if choice.delta.content:
                self._add_text("message", choice.delta.content)
            for call in choice.delta.tool_calls or ():
                if call.function is not None:
                    self._add_call(call.id or "", call.function.name or "", call.function.arguments or "")
            self._finish = choice.finish_reason or self._finish
        if chunk.usage is not None:
            self._response["usage"] = _usage_of(chunk.usage)
        return self._take()

    def end(self) -> list[ResponseStreamEvent]:
        """The chat completion has ended."""
        is_cut = self._finish == "length"
        status = "incomplete" if is_cut else "completed"
        self._close(status)
        self._response["status"] = status
        if is_cut:
            self._response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            self._response["completed_at"] = int(time.time())
        self._tell(f"response.{status}", response=self._response)
        return self._take()

    @property
    def response(self) -> Response:
        return build(Response, self._response)

    def _take(self) -> list[ResponseStreamEvent]:
        told, self._told = self._told, []
        return told

    def _tell(self, kind: str, **members: Any) -> None:
        event = {"type": kind, **members, "sequence_number": self._n_told}
        self._n_told += 1
        self._told.append(typing.cast(ResponseStreamEvent, build(_CLASSES[kind], event)))

    def _begin(self, chunk: ChatCompletionChunk) -> None:
        self._response = {
            "id": "resp_" + chunk.id.partition("-")[2],
            "object": "response",
            "created_at": chunk.created,
            "completed_at": None,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": chunk.model,
            "output": [],
            "usage": None,
            **self._asked.shown,
        }
        self._tell("response.created", response=self._response)
        self._tell("response.in_progress", response=self._response)

    # ---- Items

    @property
    def _index(self) -> int:
        return len(self._response["output"])

    def _id_of(self, kind: str) -> str:
        return f"{_PREFIXES[kind]}_{self._response['id'].removeprefix('resp_')}{self._index}"

    def _add_text(self, kind: str, text: str) -> None:
        if self._open is None or self._open["type"] != kind:
            self._close("completed")
            self._begin_item(kind)
        self._text.append(text)
        more: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        self._tell(f"response.{_PARTS[kind]}.delta", **self._place(), delta=text, **more)

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": self._index, "content_index": 0}

    def _begin_item(self, kind: str) -> None:
        item: dict[str, Any] = {"id": self._id_of(kind), "type": kind, "status": "in_progress"}
        if kind == "message":
            item |= {"role": "assistant", "content": []}
        else:
            item |= {"summary": [], "content": [], "encrypted_content": None}
        self._open = item
        self._tell("response.output_item.added", output_index=self._index, item=item)
        self._tell("response.content_part.added", **self._place(), part=_part_of(kind, ""))

    def _close(self, status: str) -> None:
        """Of the item that is open."""
        if self._open is None:
            return
        kind, text = self._open["type"], "".join(self._text)
        self._text.clear()
        more: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        self._tell(f"response.{_PARTS[kind]}.done", **self._place(), text=text, **more)
        self._tell("response.content_part.done", **self._place(), part=_part_of(kind, text))
        item, self._open = self._open, None
        self._finish_item({**item, "status": status, "content": [_part_of(kind, text)]})

    def _finish_item(self, item: dict[str, Any]) -> None:
        self._tell("response.output_item.done", output_index=self._index, item=item)
        self._response["output"].append(item)

    def _add_call(self, call: str, name: str, arguments: str) -> None:
        self._close("completed")
        item = {"id": self._id_of("function_call"), "type": "function_call", "status": "in_progress"}
        item |= {"call_id": call, "name": name, "arguments": ""}
        place = {"item_id": item["id"], "output_index": self._index}
        self._tell("response.output_item.added", output_index=self._index, item=item)
        self._tell("response.function_call_arguments.delta", **place, delta=arguments)
        self._tell("response.function_call_arguments.done", **place, name=name, arguments=arguments)
        self._finish_item({**item, "status": "completed", "arguments": arguments})


def _part_of(kind: str, text: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": _PARTS[kind], "text": text}
    return part | ({"annotations": [], "logprobs": []} if kind == "message" else {})


def _usage_of(usage: Any) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = prompt.cached_tokens if prompt is not None else None
    reasoning = completion.reasoning_tokens if completion is not None else None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning or 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
