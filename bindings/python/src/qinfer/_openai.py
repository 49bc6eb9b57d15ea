"""OpenAI's interface on a local model and without their package: chat.completions, completions, embeddings."""

from __future__ import annotations

import ctypes
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _abi
from ._grammar import Grammar
from ._library import Handle, Held, call, expect, lib, sized, text_at
from ._model import Cancel, ChatPrompt, Model, Path, model_of
from ._session import POOLINGS, Session
from ._stream import Stream

_PROMPT_ROWS = 64  # of logits, where log probabilities of prompts are asked for
_PROMPT_OPTIONS = ("template", "template_name", "now", "plain_content")
_MORE_FIELDS = (
    "top_k", "min_p", "repetition_penalty", "chat_template_kwargs", "max_reasoning_tokens", "reasoning"
)  # fmt: skip


class Object(dict[str, Any]):
    """A dict whose members are attributes, too: response.choices[0].message.content."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Request(Handle):
    _free = "qinfer_openai_request_free"

    def __init__(self, model: Model, kind: int, fields: Mapping[str, Any], prompt: ChatPrompt) -> None:
        data = json.dumps(fields, ensure_ascii=False).encode("utf-8")
        options = sized(_abi.qinfer_openai_options, seed=uuid.uuid4().int & (2**64 - 1))
        options.chat = ctypes.pointer(prompt.options)
        self._create(
            lambda out: call(
                lib.qinfer_openai_request_create, model, kind, data, len(data), ctypes.byref(options), out
            )
        )
        self.info = sized(_abi.qinfer_openai_info)
        call(lib.qinfer_openai_request_get_info, self, ctypes.byref(self.info))
        self.schema = text_at(self.info.schema, self.info.schema_len)
        self.streams = (self.info.flags & _abi.QINFER_OPENAI_STREAM) != 0


class _Generation(Handle):
    _free = "qinfer_generation_free"

    def __init__(self, request: _Request, choice: int, session: Session, cancel: Cancel) -> None:
        self._create(
            lambda out: call(lib.qinfer_openai_generation_create, request, choice, session, cancel, out)
        )


class _Answer(Handle):
    _free = "qinfer_openai_answer_free"

    def __init__(self, request: _Request, prefix: str, model: str) -> None:
        options = sized(_abi.qinfer_openai_answer_options, created=int(time.time()))
        options.id = f"{prefix}-{uuid.uuid4().hex}".encode()
        options.model = model.encode("utf-8")
        self._streams, self._room = request.streams, 1 << 16
        self._create(lambda out: call(lib.qinfer_openai_answer_create, request, ctypes.byref(options), out))

    def step(self, function: Any, choice: int, generation: _Generation) -> bool:
        """Whether the choice has ended."""
        ended = ctypes.c_int32()
        call(function, self, choice, generation, ctypes.byref(ended))
        return ended.value != 0

    def take(self) -> list[Object]:
        """Chunks, or the whole once it is complete."""
        n, complete = ctypes.c_size_t(), ctypes.c_int32()
        while True:
            buffer = ctypes.create_string_buffer(self._room)
            try:
                call(lib.qinfer_openai_answer_bytes, self, buffer, self._room, ctypes.byref(n), ctypes.byref(complete))
                break
            except Exception:
                if n.value <= self._room:
                    raise
                self._room = n.value
        data = buffer.raw[: n.value].decode("utf-8")
        if not self._streams:
            return [json.loads(data, object_hook=Object)] if data else []
        events = [event.removeprefix("data: ") for event in data.split("\n\n")]
        return [json.loads(event, object_hook=Object) for event in events if event and event != "[DONE]"]


class _Run:
    """One request that draws tokens."""

    def __init__(self, request: _Request, answer: _Answer, model: Model) -> None:
        info = request.info
        room = info.longest_prompt + info.max_new_tokens if info.max_new_tokens else 0
        wants_prompt = (info.flags & _abi.QINFER_OPENAI_PROMPT_LOGPROBS) != 0
        self._request, self._answer = request, answer
        self._session = Session(
            model,
            max_tokens=min(room, model.info["context_tokens"]),
            max_logits=min(info.longest_prompt, _PROMPT_ROWS) if wants_prompt else 0,
        )
        self._grammar = Grammar.json_schema(model, request.schema) if request.schema else None

    def objects(self) -> Iterator[Object]:
        with self._session, self._request, self._answer:
            stream: Stream[Object] = Stream(self._session, self._work)
            try:
                yield from stream
            finally:
                stream.close()

    def _work(self, put: Callable[[Object | None], bool], ending: Cancel) -> None:
        info = sized(_abi.qinfer_token_info)

        def goes_on() -> bool:
            taken = self._answer.take()
            return all([put(item) for item in taken]) and put(None)

        with Held(ending):
            for choice in range(self._request.info.n_choices):
                self._session.set_grammar(self._grammar)
                with _Generation(self._request, choice, self._session, ending) as generation:
                    ended = self._answer.step(lib.qinfer_openai_answer_begin, choice, generation)
                    while goes_on() and not ended:
                        call(lib.qinfer_generation_next, generation, ctypes.byref(info))
                        ended = self._answer.step(lib.qinfer_openai_answer_add, choice, generation)
                if not goes_on():
                    return


class _Route:
    def __init__(self, client: Client) -> None:
        self._client = client

    def _request(self, kind: int, fields: dict[str, Any]) -> _Request:
        """Fields that are None are as if they were not there; extra_body has more of them, and variables of the template."""
        extra = dict(fields.pop("extra_body", None) or {})
        with_prompt = {name: extra.pop(name) for name in _PROMPT_OPTIONS if name in extra}
        fields |= {name: extra.pop(name) for name in _MORE_FIELDS if name in extra}
        if extra:
            fields["chat_template_kwargs"] = {**extra, **(fields.get("chat_template_kwargs") or {})}
        return _Request(self._client.model, kind, fields, ChatPrompt([], **with_prompt))

    def _draw(self, kind: int, prefix: str, fields: dict[str, Any]) -> Any:
        request = self._request(kind, fields)
        answer = _Answer(request, prefix, fields.get("model") or "local")
        objects = _Run(request, answer, self._client.model).objects()
        if request.streams:
            return objects
        (whole,) = objects
        return whole


class ChatCompletions(_Route):
    def create(self, *, messages: Any, **fields: Any) -> Any:
        """A chat completion, or with stream=True an iterator of chunks, of the members that the service gives. Fields are
        the service's, and top_k, min_p, repetition_penalty, max_reasoning_tokens and reasoning (False: none is looked
        for). UnsupportedError names one that is not honoured. extra_body: variables of the model's template, template,
        template_name, now, plain_content."""
        fields["messages"] = list(messages)
        return self._draw(_abi.QINFER_OPENAI_CHAT, "chatcmpl", fields)


class Completions(_Route):
    def create(self, *, prompt: Any, **fields: Any) -> Any:
        """A completion of a text, of tokens, or of a list of either; as of chats."""
        return self._draw(_abi.QINFER_OPENAI_COMPLETION, "cmpl", {**fields, "prompt": prompt})


class Embeddings(_Route):
    def create(self, *, input: Any, pooling: str = "default", **fields: Any) -> Any:  # noqa: A002 - the service's name
        """Embeddings of a text, of tokens, or of a list of either. pooling: as in Session.embedding()."""
        model = self._client.model
        with self._request(_abi.QINFER_OPENAI_EMBEDDINGS, {**fields, "input": input}) as request:
            answer = _Answer(request, "embd", fields.get("model") or "local")
            with answer, Session(model, max_tokens=request.info.longest_prompt, embeddings=True) as session:
                for prompt in range(request.info.n_prompts):
                    call(lib.qinfer_openai_answer_embed, answer, prompt, session, POOLINGS[pooling], None)
                return answer.take()[0]


class _Chat:
    def __init__(self, client: Client) -> None:
        self.completions = ChatCompletions(client)


class Client:
    """client = Client("path"); client.chat.completions.create(messages=[...]); client.completions; client.embeddings"""

    def __init__(self, model: Model | Path) -> None:
        self.model = model_of(model)
        expect(Model, self.model)
        self.chat, self.completions, self.embeddings = _Chat(self), Completions(self), Embeddings(self)
