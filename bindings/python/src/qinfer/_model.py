"""Models and what needs no session: tokens and chat templates."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from . import _abi
from ._cancel import Cancel
from ._infos import EncodingInfo, Memory, ModelInfo
from ._library import (
    Handle,
    Held,
    address_of,
    ask,
    call,
    encoded,
    expect,
    lib,
    pointer,
    read_list,
    read_struct,
    read_text,
    read_tokens,
    sized,
    utf8,
)
from ._load import Loading, LoadOptions, Path
from ._options import ManyOptions, SamplerOptions
from ._results import Generated
from ._runtime import Runtime

if TYPE_CHECKING:
    from ._session import Session

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Token:
    """A token: its bytes, perhaps part of a character, and what it is. byte: it stands for one byte alone."""

    id: int
    bytes: bytes
    control: bool
    end: bool
    byte: bool = False


class Model(Handle):
    """Weights, tokenizer and metadata; immutable, and for any number of threads.

    path: a directory of a Hugging Face checkpoint, a GGUF file, a packed file, or an id of the hub ("Qwen/Qwen3-0.6B", or
    "org/name:*Q4_K_M.gguf" for a file of it; needs huggingface_hub). Options: see LoadOptions."""

    _free = "qinfer_model_free"
    _instead = "threads may share it, another process loads it from its path"
    def __init__(self, path: Path, runtime: Runtime | None = None, **options: Unpack[LoadOptions]) -> None:
        self.runtime = runtime
        loading = Loading("Model", options)
        if runtime is not None:
            expect(Runtime, runtime)
        found, native = loading.find(path), ctypes.byref(loading.native)
        self._create(lambda out: loading.call(lib.qinfer_model_load, runtime, found, native, out))
        info = self.info
        self._n_vocab, self._embedding_dims = int(info["n_vocab"]), int(info["embedding_dims"])
        self._n_active = int(info["n_active_params"])
        self._n_embd = int(info["n_embd"])
        self._gives_hidden = bool(info["flags"] & _abi.QINFER_MODEL_GIVES_HIDDEN)

    @property
    def info(self) -> ModelInfo:
        return read_struct(ModelInfo, _abi.qinfer_model_info, lib.qinfer_model_get_info, self)

    @property
    def memory(self) -> Memory:
        """Bytes in use, as plan() says beforehand."""
        return read_struct(Memory, _abi.qinfer_memory, lib.qinfer_model_get_memory, self)

    @property
    def metadata(self) -> dict[str, str]:
        """What the files say of the model, as text."""
        out = {}
        with Held(self):
            for index in range(lib.qinfer_model_meta_count(pointer(self))):
                key = lib.qinfer_model_meta_key(pointer(self), index)
                out[key.decode()] = (lib.qinfer_model_meta_value(pointer(self), key) or b"").decode("utf-8", "replace")
        return out

    @property
    def encodings(self) -> list[EncodingInfo]:
        """How its matrices are stored, for each encoding."""
        with Held(self):
            count = lib.qinfer_model_encoding_count(pointer(self))
            struct, function = _abi.qinfer_encoding_info, lib.qinfer_model_encoding_info
            return [read_struct(EncodingInfo, struct, function, self, index) for index in range(count)]

    def expert_counts(self, layer: int) -> list[int]:
        """How many tokens each expert of a layer was chosen for since the model was loaded; [] where it has none."""
        return read_list(ctypes.c_uint64, lib.qinfer_model_expert_counts, self, layer)

    def session(self, max_tokens: int = 0, **sampler: Unpack[SamplerOptions]) -> Session:
        """A session with a cache of its own, whose tokens are drawn like that. max_tokens: its room, 0 = the context."""
        from ._session import Session

        session = Session(self, max_tokens=max_tokens)
        try:
            session.set_sampler(**sampler)
        except BaseException:
            session.close()
            raise
        return session

    def generate(
        self, prompts: Sequence[str | Sequence[int]], max_tokens: int = 0, **options: Unpack[ManyOptions]
    ) -> list[Generated]:
        """What follows each prompt, drawn together: qinfer.generate() of this model."""
        from ._batch import generate

        return generate(self, prompts, max_tokens, **options)

    def tokenize(self, text: str, *, special: bool = True, parse_special: bool = False) -> list[int]:
        """The tokens of a text. special: with what the tokenizer puts around it, such as a begin token. parse_special:
        "<|im_end|>" in the text becomes one token; never for text of strangers."""
        flags = _abi.QINFER_TEXT_ADD_SPECIAL if special else 0
        flags |= _abi.QINFER_TEXT_PARSE_SPECIAL if parse_special else 0
        data = utf8(text)
        return read_tokens(lib.qinfer_tokenize, self, data, len(data), flags, room=len(data) + 16)

    def detokenize(self, tokens: Iterable[int]) -> str:
        """The text of tokens, without control tokens; bytes that are no characters become U+FFFD."""
        detok = Detokenizer(self)
        with detok:
            return "".join([detok.push(token) for token in tokens]) + detok.finish()

    def token(self, token: int) -> Token:
        size = ctypes.c_size_t()
        with Held(self):
            address = ask(lib.qinfer_token_text, self, token, ctypes.byref(size))
            flags = ask(lib.qinfer_token_flags, self, token)
            text = ctypes.string_at(address, size.value) if address else b""
        control, end = bool(flags & _abi.QINFER_TOKEN_CONTROL), bool(flags & _abi.QINFER_TOKEN_END)
        return Token(token, text, control, end, bool(flags & _abi.QINFER_TOKEN_BYTE))

    def find_token(self, text: str) -> int:
        """The token whose entry in the tokenizer is this text. NotFoundError if there is none."""
        data, out = utf8(text), ctypes.c_int32()
        call(lib.qinfer_token_find, self, data, len(data), ctypes.byref(out))
        return out.value

    @property
    def prompts(self) -> dict[str, str]:
        """What the model's files have to go before a text, by what the text is: "query", "document"."""
        names: list[bytes] = []
        with Held(self):
            while name := lib.qinfer_model_prompt_name(pointer(self), len(names)):
                names.append(name)
        return {name.decode("utf-8", "replace"): read_text(lib.qinfer_model_prompt, self, name) for name in names}

    @property
    def default_prompt(self) -> str | None:
        """The name of the prompt that the files call the default. Nothing goes before a text unless it is asked for."""
        with Held(self):
            name = lib.qinfer_model_default_prompt(pointer(self))
            return name.decode("utf-8", "replace") if name else None

    def embedding_tokens(
        self,
        text: str,
        *,
        prompt: str | None = None,
        prompt_text: str | None = None,
        truncate: bool = False,
        parse_special: bool = False,
        max_tokens: int = 0,
    ) -> tuple[list[int], int]:
        """The tokens that the embedding of a text is made of, and how many were cut off. prompt: the name of one of
        prompts, prompt_text: another one. truncate: a text that is too long is cut, otherwise it is ContextFullError.
        parse_special: as in tokenize()."""
        options = sized(_abi.qinfer_embedding_text_options, max_tokens=max_tokens)
        options.flags = _abi.QINFER_EMBED_TRUNCATE if truncate else 0
        options.flags |= _abi.QINFER_EMBED_PARSE_SPECIAL if parse_special else 0
        options.prompt_name, options.prompt = encoded(prompt), encoded(prompt_text)
        data, cut = utf8(text), ctypes.c_uint64()

        def tokenize(tokens: Any, capacity: int, out_n: Any, err: Any) -> int:
            return int(
                lib.qinfer_embedding_tokenize(
                    pointer(self), data, len(data), ctypes.byref(options), tokens, capacity, out_n, ctypes.byref(cut), err
                )
            )  # fmt: skip

        with Held(self):
            return read_tokens(tokenize, room=len(data) + 16), cut.value

    @property
    def end_tokens(self) -> list[int]:
        return read_tokens(lib.qinfer_model_end_tokens, self)

    @property
    def chat_template_names(self) -> list[str]:
        """The names of its templates for chat_template() and ChatPrompt."""
        names: list[bytes] = []
        with Held(self):
            while name := lib.qinfer_model_chat_template_name(pointer(self), len(names)):
                names.append(name)
        return [name.decode("utf-8", "replace") for name in names]

    def chat_template(self, name: str | None = None) -> str:
        """The template as it is written. NotFoundError if there is none of that name."""
        return read_text(lib.qinfer_model_chat_template, self, encoded(name))

    def render_chat(self, messages: Sequence[Message], **variables: Any) -> str:
        """The text that the model's template makes of messages; see ChatPrompt for what else may be given."""
        prompt = ChatPrompt(messages, **variables)
        data, options = prompt.json, prompt.options

        def render(text: Any, capacity: int, out_n: Any, err: Any) -> int:
            return int(
                lib.qinfer_chat_render(
                    pointer(self), data, len(data), ctypes.byref(options), text, capacity, out_n, None, 0, None, err
                )
            )  # fmt: skip

        with Held(self, prompt.cancel):
            return read_text(render, room=4096)

    def tokenize_chat(self, messages: Sequence[Message], **variables: Any) -> list[int]:
        """The tokens of that text: nothing that a message says becomes a control token."""
        prompt = ChatPrompt(messages, **variables)
        with Held(prompt.cancel):
            return read_tokens(
                lib.qinfer_chat_tokenize, self, prompt.json, len(prompt.json), ctypes.byref(prompt.options), room=1024
            )


class ChatPrompt:
    """A conversation as the library takes it: messages, tools, and any other variable of the template. Messages may be as
    for OpenAI's service: arguments of calls as text or objects, contents as texts or lists of parts.

    generation_prompt: the reply begins at the end. plain_content: no added tokens at all in what messages say. template:
    one to use instead of the model's. template_name: one of the model's. now: what the template is told the date is."""

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        plain_content: bool = False,
        template: str | None = None,
        template_name: str | None = None,
        now: str | None = None,
        cancel: Cancel | None = None,
        **variables: Any,
    ) -> None:
        conversation = {**variables, "messages": list(messages)}
        if tools:
            conversation["tools"] = list(tools)
        self.json = json.dumps(conversation, ensure_ascii=False).encode("utf-8")
        self.options = sized(_abi.qinfer_chat_options)
        self.options.flags = _abi.QINFER_CHAT_GENERATION_PROMPT if generation_prompt else 0
        self.options.flags |= _abi.QINFER_CHAT_PLAIN_CONTENT if plain_content else 0
        self.options.flags |= _abi.QINFER_CHAT_OPENAI_FORMS
        self.options.template_text, self.options.template_name = encoded(template), encoded(template_name)
        self.options.now = encoded(now)
        self.options.cancel = address_of(Cancel, cancel)
        self.cancel = cancel


def model_of(source: Model | Path) -> Model:
    """The model, or the one at a path."""
    return Model(source) if isinstance(source, (str, os.PathLike)) else source


class Detokenizer(Handle):
    """Text from tokens, one after another: whole characters, the rest is held back."""

    _free = "qinfer_detok_free"

    def __init__(self, model: Model) -> None:
        expect(Model, model)
        self._room = model.info["max_token_bytes"] * 3 + 16
        self._text = ctypes.create_string_buffer(self._room)
        self._n = ctypes.c_size_t()
        self._create(lambda out: call(lib.qinfer_detok_create, model, out))

    def push(self, token: int) -> str:
        call(lib.qinfer_detok_push, self, token, self._text, self._room, ctypes.byref(self._n))
        return self._text.raw[: self._n.value].decode("utf-8")

    def finish(self) -> str:
        """What is held back; then it starts over."""
        call(lib.qinfer_detok_finish, self, self._text, self._room, ctypes.byref(self._n))
        return self._text.raw[: self._n.value].decode("utf-8")
