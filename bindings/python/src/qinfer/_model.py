"""Runtimes, models and what needs no session: tokens, chat templates, memory plans."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import _abi, _exit
from ._errors import NotFoundError
from ._files import HostFiles, Opener
from ._library import (
    Callbacks,
    Handle,
    Held,
    address_of,
    ask,
    call,
    call_apart,
    encoded,
    expect,
    handles,
    lib,
    pointer,
    read_text,
    read_tokens,
    sized,
    text_at,
    utf8,
)

Path = str | os.PathLike[str]
Message = Mapping[str, Any]


def version() -> str:
    """The version of the library that is loaded."""
    return str(lib.qinfer_version_string().decode())


def build_info() -> str:
    """Commit, compiler, flags and kernel sets of the library."""
    return str(lib.qinfer_build_info().decode())


def members_of(struct: Any, without: Iterable[str] = ()) -> dict[str, Any]:
    """A struct as a dict: texts as str, no sizes and reserved members."""
    out = {}
    for name, *_ in struct._fields_:
        value = getattr(struct, name)
        if name not in ("struct_size", "reserved") and name not in without:
            value = list(value) if isinstance(value, ctypes.Array) else value
            out[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return out


def read_struct(struct: Any, function: Any, *arguments: Any) -> dict[str, Any]:
    """What a function fills, as a dict."""
    filled = sized(struct)
    call(function, *arguments, ctypes.byref(filled))
    return members_of(filled)


def cpu_info() -> dict[str, Any]:
    """Cores, caches, and the kernel set ("target") that is chosen by default."""
    info = read_struct(_abi.qinfer_cpu_info, lib.qinfer_get_cpu_info)
    info["model_name"] = read_text(lib.qinfer_cpu_name)
    info["features"] = read_text(lib.qinfer_cpu_features)
    return info


class Cancel(Handle):
    """A request to stop, which calls look at: request() it from any thread. It stays until reset()."""

    _free = "qinfer_cancel_free"

    def __init__(self) -> None:
        self._requested = False
        self._followers: weakref.WeakSet[Cancel] = weakref.WeakSet()
        self._create(lambda out: call(lib.qinfer_cancel_create, out))

    @classmethod
    def of_call(cls, cancel: Cancel | None) -> Cancel:
        """One of a call's own, which a signal or the end of the interpreter may request, and which is requested when
        the caller's is."""
        own = cls()
        if cancel is not None:
            expect(Cancel, cancel)
            _ = cancel.native
        with handles():  # in which other threads go through these
            _of_calls.add(own)
            if cancel is not None:
                cancel._followers.add(own)
        if cancel is not None and cancel._requested:
            own.request()
        return own

    def request(self) -> None:
        self._requested = True
        self._begin()  # and not ask(), which refuses where the interpreter ends
        try:
            lib.qinfer_cancel_request(pointer(self))
        finally:
            self._end()
        with handles():
            followers = list(self._followers)
        for follower in followers:
            follower._request_if_open()

    def _request_if_open(self) -> None:
        """Of a call that another thread may be ending: its Cancel is found until after __del__ has run."""
        with suppress(ValueError):
            self.request()

    def reset(self) -> None:
        self._requested = False
        ask(lib.qinfer_cancel_reset, self)


_of_calls: weakref.WeakSet[Cancel] = weakref.WeakSet()


def _cancel_calls() -> None:
    with handles():
        cancels = list(_of_calls)
    for cancel in cancels:
        cancel._request_if_open()


_exit.requests.append(_cancel_calls)


class Runtime(Handle):
    """Threads and kernel sets. Evaluations on one runtime run one after another, each on all of its threads.

    threads: 0 = physical cores. cpu_target: a kernel set by name. exact: f32 activations and sums. log: called with
    (level, line); it may be called on any thread. tiles: whether the system may be asked for those of AMX."""

    _free = "qinfer_runtime_free"

    def __init__(
        self,
        threads: int = 0,
        cpu_target: str | None = None,
        exact: bool = False,
        spin_us: int = 0,
        log: Callable[[int, str], object] | None = None,
        log_level: int = _abi.QINFER_LOG_WARN,
        tiles: bool = True,
    ) -> None:
        options = sized(_abi.qinfer_runtime_options, n_threads=threads, spin_us=spin_us, log_level=log_level)
        options.flags = _abi.QINFER_RUNTIME_EXACT if exact else 0
        options.flags |= 0 if tiles else _abi.QINFER_RUNTIME_NO_TILES
        options.cpu_target = encoded(cpu_target)
        if log is not None:
            expect(Callable, log)
            sink = log

            def deliver(level: int, line: int, size: int, _: Any) -> None:
                try:
                    sink(level, text_at(line, size))
                except Exception:  # noqa: BLE001 - nothing waits for it
                    pass

            _exit.callbacks.add(deliver.__code__)
            self._log = _abi.qinfer_log_fn(deliver)
            options.log = self._log
        self._create(lambda out: call(lib.qinfer_runtime_create, ctypes.byref(options), out))

    @property
    def info(self) -> dict[str, Any]:
        return read_struct(_abi.qinfer_runtime_info, lib.qinfer_runtime_get_info, self)


def _find(path: Path) -> Path:
    """The path, or the snapshot of a model that is named by its id of the Hugging Face hub."""
    if not isinstance(path, (str, os.PathLike)) or os.path.exists(path) or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)):
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise _not_there(path, "to fetch it from the hub: pip install huggingface_hub") from None
    patterns = ["*.json", "*.safetensors", "*.jinja", "*.model"]
    try:
        return str(snapshot_download(str(path), allow_patterns=patterns))
    except Exception as failure:
        raise _not_there(path, f"and the hub does not give it: {failure}") from failure


def _not_there(path: Path, why: str) -> NotFoundError:
    message = f"{path} is no file or directory; {why}"
    return NotFoundError("QINFER_E_NOT_FOUND", _abi.QINFER_E_NOT_FOUND, message, errno.ENOENT)


@dataclass(frozen=True)
class Token:
    """A token: its bytes, perhaps part of a character, and what it is."""

    id: int
    bytes: bytes
    control: bool
    end: bool


def _stage_of(layers: range) -> tuple[int, int]:
    expect(range, layers)
    if layers.step != 1 or len(layers) == 0:
        raise ValueError(f"layers is {layers}, expected a range of layers one after another, such as range(0, 14)")
    return layers.start, len(layers)


class Model(Handle):
    """Weights, tokenizer and metadata; immutable, and for any number of threads.

    path: a directory of a Hugging Face checkpoint, a GGUF file, a packed file, or an id of the hub ("Qwen/Qwen3-0.6B";
    needs huggingface_hub). max_context: tokens that sessions will have at most, which matters to models with longrope
    (qinfer_load_options). layers: a stage, such as range(0, 14), for evaluate_stage(). progress: called with (done_bytes, total_bytes). files: where path and packed_path are,
    instead of the operating system's files; weights are read into memory then."""

    _free = "qinfer_model_free"
    _instead = "threads may share it, another process loads it from its path"

    def __init__(
        self,
        path: Path,
        runtime: Runtime | None = None,
        *,
        weights: bool = True,
        mmap: bool = True,
        lock: bool = False,
        verify: bool = False,
        pack: bool = False,
        weight_format: str | None = None,
        max_batch_tokens: int = 0,
        memory_budget: int = 0,
        max_context: int = 0,
        layers: range | None = None,
        packed_path: Path | None = None,
        progress: Callable[[int, int], object] | None = None,
        cancel: Cancel | None = None,
        files: Opener | None = None,
    ) -> None:
        self.runtime = runtime
        options = sized(_abi.qinfer_load_options, max_batch_tokens=max_batch_tokens, memory_budget_bytes=memory_budget)
        options.max_context = max_context
        if layers is not None:
            options.first_layer, options.n_layers = _stage_of(layers)
        for wanted, flag in (
            (not weights, _abi.QINFER_LOAD_NO_WEIGHTS),
            (not mmap, _abi.QINFER_LOAD_NO_MMAP),
            (lock, _abi.QINFER_LOAD_LOCK),
            (verify, _abi.QINFER_LOAD_VERIFY),
            (pack, _abi.QINFER_LOAD_PACK),
        ):
            options.flags |= flag if wanted else 0
        options.weight_format, options.packed_path = encoded(weight_format), encoded(packed_path)
        ending = Cancel.of_call(cancel)
        options.cancel = address_of(Cancel, ending)
        callbacks = Callbacks() if files is None else HostFiles(files)
        if isinstance(callbacks, HostFiles):
            options.files = ctypes.pointer(callbacks.native)
        if progress is not None:
            report = progress

            def advance(done: int, total: int, _: Any) -> int:
                report(done, total)
                return 0

            guard = callbacks.guarded(_abi.qinfer_progress_fn, advance)
            options.progress = guard
        found = encoded(_find(path) if files is None else path)

        def load(out: Any) -> None:
            arguments = lib.qinfer_model_load, runtime, found, ctypes.byref(options), out
            if files is None and progress is None:
                call_apart(ending, *arguments)
            else:
                callbacks.call(*arguments)

        if runtime is not None:
            expect(Runtime, runtime)
        with Held(ending):
            self._create(load)
        info = self.info
        self._n_vocab, self._embedding_dims = int(info["n_vocab"]), int(info["embedding_dims"])
        self._n_active = int(info["n_active_params"])
        self._n_embd = int(info["n_embd"])
        self._gives_hidden = bool(info["flags"] & _abi.QINFER_MODEL_GIVES_HIDDEN)

    @property
    def info(self) -> dict[str, Any]:
        return read_struct(_abi.qinfer_model_info, lib.qinfer_model_get_info, self)

    @property
    def memory(self) -> dict[str, Any]:
        """Bytes in use, as plan() says beforehand."""
        return read_struct(_abi.qinfer_memory, lib.qinfer_model_get_memory, self)

    @property
    def metadata(self) -> dict[str, str]:
        """What the files say of the model, as text."""
        out = {}
        with Held(self):
            for index in range(lib.qinfer_model_meta_count(pointer(self))):
                key = lib.qinfer_model_meta_key(pointer(self), index)
                out[key.decode()] = (lib.qinfer_model_meta_value(pointer(self), key) or b"").decode("utf-8", "replace")
        return out

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
        return Token(token, text, control, end)

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


def plan(
    path: Path, *, sessions: int = 0, context: int = 0, threads: int = 0, layers: range | None = None
) -> dict[str, Any]:
    """Bytes that loading the model, or a stage of these layers, and a cache for `sessions` sessions of `context` tokens will
    take, from headers only."""
    memory = sized(_abi.qinfer_memory)
    runtime, load = sized(_abi.qinfer_runtime_options, n_threads=threads), sized(_abi.qinfer_load_options)
    if layers is not None:
        load.first_layer, load.n_layers = _stage_of(layers)
    options, cache = sized(_abi.qinfer_session_options, max_tokens=context), sized(_abi.qinfer_kv_cache_options)

    def fill(of_cache: Any) -> None:
        given = ctypes.byref(runtime), ctypes.byref(load), of_cache, ctypes.byref(options)
        call(lib.qinfer_model_plan, encoded(path), *given, ctypes.byref(memory))

    fill(None)
    if sessions:
        cache.budget_bytes = max(1, memory.kv_per_session * sessions)
        fill(ctypes.byref(cache))
    return members_of(memory)
