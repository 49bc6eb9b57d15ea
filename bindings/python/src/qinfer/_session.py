"""Sessions: evaluating, sampling, generating."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from sys import is_finalizing
from typing import Any, Unpack

from . import _abi
from ._cache import KvCache
from ._cancel import Cancel
from ._errors import CancelledError, StateError
from ._files import HostFiles, Opener
from ._grammar import Grammar, Matcher
from ._hook import PythonHook, floats_of
from ._infos import Metrics, SessionInfo, SessionMemory
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
    lib,
    read_struct,
    read_tokens,
    sized,
    tokens_of,
    utf8,
)
from ._load import Path
from ._model import Model
from ._options import Pooling, SamplerOptions, ScoreOptions
from ._reply import Reply
from ._results import Generated, TokenInfo, generate_options
from ._sampler import sampler_of
from ._stream import Stream, Streaming
from ._vectors import embedding_options, score_options


def evaluate(
    sessions: Sequence[Session],
    *,
    max_tokens: int = 0,
    keep_logits: int = 0,
    logits: bool = True,
    cancel: Cancel | None = None,
) -> None:
    """Evaluates the pending tokens of sessions of one cache as one batch. The GIL is free meanwhile, and
    the handlers of signals run: Ctrl-C ends it, and what was evaluated stays so."""
    options = sized(_abi.qinfer_eval_options, max_tokens=max_tokens, keep_logits=keep_logits)
    options.flags = 0 if logits else _abi.QINFER_EVAL_NO_LOGITS
    evaluate_with(sessions, options, cancel)


def evaluate_with(sessions: Sequence[Session], options: Any, cancel: Cancel | None) -> None:
    for session in sessions:
        expect(Session, session)
    long = _is_long(sessions)
    ending = Cancel.of_call(cancel) if long else cancel
    options.cancel = address_of(Cancel, ending)
    with Held(ending, *sessions):
        handles = (ctypes.c_void_p * len(sessions))(*[session._handle for session in sessions])
        arguments = lib.qinfer_eval, handles, len(sessions), ctypes.byref(options)
        if ending is None or not long:
            call(*arguments)
            return
        try:
            for session in sessions:
                session._apart = True
            call_apart(ending, *arguments)
        finally:
            for session in sessions:
                session._apart = False


def _is_long(sessions: Sequence[Session]) -> bool:
    """Whether an evaluation may take long enough for a signal to come: some milliseconds and more."""
    return bool(sum(session.pending * session.model._n_active for session in sessions) > 200_000_000)


class Session(Streaming, Handle):
    """A list of tokens, a prefix of which is evaluated while the rest is pending, and its sampler. For one thread at a
    time: while another thread uses it, a stream of its own too, all calls but close() are StateError; but in an except clause
    a call ends a stream that was being read when the exception came. `source` is a cache, or a model or the path of one,
    which then gets a cache for this session alone. `max_draft`: tokens that are guessed ahead, at most 16, which makes
    text that repeats earlier text faster and changes none of it. `prefix_space`: in a cache that keeps prefixes only
    sessions of the same number find what others have evaluated."""

    _free = "qinfer_session_free"
    _instead = "fork() makes a session with the same tokens, save() and load() one of another process"

    def __init__(
        self,
        source: KvCache | Model | Path,
        *,
        max_tokens: int = 0,
        max_logits: int = 0,
        max_draft: int = 0,
        embeddings: bool = False,
        prefix_space: int = 0,
    ) -> None:
        self.cache = source if isinstance(source, KvCache) else KvCache(source)
        self.model = self.cache.model
        options = sized(
            _abi.qinfer_session_options,
            max_tokens=max_tokens,
            max_logits=max_logits,
            max_draft=max_draft,
            prefix_space=prefix_space,
        )
        options.flags = _abi.QINFER_SESSION_EMBEDDINGS if embeddings else 0
        self._prepare()
        self._create(lambda out: call(lib.qinfer_session_create, self.cache, ctypes.byref(options), out))

    @classmethod
    def _adopt(cls, cache: KvCache, create: Callable[[Any], None]) -> Session:
        expect(KvCache, cache)
        session = cls.__new__(cls)
        session.cache, session.model = cache, cache.model
        session._prepare()
        session._create(create)
        return session

    def _prepare(self) -> None:
        self._hook: Any = None
        self._apart = False  # a thread evaluates it while this one waits for signals
        self._using, self._depth, self._user, self._process = threading.RLock(), 0, 0, os.getpid()
        self._streams: weakref.WeakSet[Stream[Any]] = weakref.WeakSet()
        self._spare: list[Cancel] = []  # of a generation that is over

    def _begin(self) -> None:
        """For this thread alone; its callbacks may use it again."""
        _ = self.native
        self._release_left()
        if self._apart:
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "a call that a signal has interrupted uses the session", 0)
        if not self._using.acquire(blocking=False) and not (self._end_left() and self._using.acquire(blocking=False)):
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "another thread, or a stream, uses the session", 0)
        try:
            super()._begin()
        except BaseException:
            self._using.release()
            raise
        self._depth, self._user = self._depth + 1, threading.get_ident()

    def _release_left(self) -> None:
        """What a signal's handler raised between taking the session and noting that may have left it taken."""
        while self._depth == 0 and self._using._is_owned():  # type: ignore[attr-defined]
            self._using.release()

    def _end_left(self) -> bool:
        """In an except clause: ends the streams that this thread was reading when the exception came, whose traceback
        keeps them."""
        handled = sys.exc_info()[1]
        left = [stream for stream in list(self._streams) if handled is not None and stream.left_by(handled)]
        for stream in left:
            stream.close()
        return bool(left)

    def _end(self) -> None:
        self._depth -= 1
        super()._end()
        self._using.release()

    def close(self) -> None:
        """Ends its streams, waits for a call of another thread, and frees it. RuntimeError in a callback of its own."""
        if self._depth and self._user == threading.get_ident() and self._process == os.getpid():
            raise RuntimeError("a session cannot be closed by a callback of its own call")
        for stream in list(self._streams):
            stream.close()
        super().close()
        if self._process == os.getpid() and not is_finalizing():  # else there are no threads to wait for
            with self._using:
                pass

    # ---- Tokens
    def append(self, tokens: Iterable[int] | str) -> None:
        """Adds pending tokens, or those of a text."""
        listed = tokens_of(self.model.tokenize(tokens, special=len(self) == 0) if isinstance(tokens, str) else tokens)
        call(lib.qinfer_session_append, self, listed, len(listed))

    def set_tokens(self, tokens: Iterable[int]) -> int:
        """Makes these the session's tokens, and keeps what they have in common with those there are; returns how many
        that is."""
        listed, kept = tokens_of(tokens), ctypes.c_size_t()
        self._call(lib.qinfer_session_set_tokens, listed, len(listed), ctypes.byref(kept))
        return kept.value

    @property
    def tokens(self) -> list[int]:
        return read_tokens(lib.qinfer_session_get_tokens, self, room=len(self) + 1)

    def __len__(self) -> int:
        return int(ask(lib.qinfer_session_length, self))

    @property
    def pending(self) -> int:
        """Tokens that are not evaluated; 0: logits are there."""
        return int(ask(lib.qinfer_session_pending, self))

    def truncate(self, n_tokens: int) -> None:
        self._call(lib.qinfer_session_truncate, n_tokens)

    def fork(self) -> Session:
        """A copy that shares memory until one side writes."""
        fork = Session._adopt(self.cache, lambda out: call(lib.qinfer_session_fork, self, out))
        fork._hook = None if isinstance(self._hook, Matcher) else self._hook  # it has a matcher of its own
        return fork

    def save(self, path: Path, *, files: Opener | None = None) -> None:
        """Tokens, keys, values and sampler, to a file; only what is new is written to one that has the beginning. files:
        where path is, instead of the operating system's files."""
        if files is None:
            call(lib.qinfer_session_save, self, encoded(path))
            return
        host = HostFiles(files)
        options = sized(_abi.qinfer_session_save_options, files=ctypes.pointer(host.native))
        host.call(lib.qinfer_session_save_with, self, encoded(path), ctypes.byref(options))

    @classmethod
    def load(cls, cache: KvCache, path: Path, *, files: Opener | None = None, max_draft: int = 0) -> Session:
        """A session as it was saved. The model must have the same weights. max_draft: as of a new one."""
        load = lib.qinfer_session_load_with
        options = sized(_abi.qinfer_session_load_options, max_draft=max_draft)
        if files is None:
            return cls._adopt(cache, lambda out: call(load, cache, encoded(path), ctypes.byref(options), out, None))
        host = HostFiles(files)
        options.files = ctypes.pointer(host.native)
        return cls._adopt(
            cache, lambda out: host.call(load, cache, encoded(path), ctypes.byref(options), out, None)
        )

    @property
    def info(self) -> SessionInfo:
        return read_struct(SessionInfo, _abi.qinfer_session_info, lib.qinfer_session_get_info, self)

    @property
    def metrics(self) -> Metrics:
        return read_struct(Metrics, _abi.qinfer_metrics, lib.qinfer_session_get_metrics, self)

    @property
    def memory(self) -> SessionMemory:
        return read_struct(SessionMemory, _abi.qinfer_session_memory, lib.qinfer_session_get_memory, self)

    # ---- Sampling
    def set_sampler(self, **options: Unpack[SamplerOptions]) -> None:
        """How tokens are drawn from now on; see SamplerOptions. Nothing: greedy."""
        sampler, breakers = sampler_of(options)
        if breakers is not None:
            self.set_dry_breakers(breakers)
        call(lib.qinfer_session_set_sampler, self, ctypes.byref(sampler))

    def set_dry_breakers(self, texts: str | Iterable[str]) -> None:
        """The texts that no repetition of DRY reaches over, at most 16 of 1 to 40 bytes; without this call a line feed,
        a colon, a double quote and an asterisk."""
        bytes_of = [utf8(text) for text in ([texts] if isinstance(texts, str) else texts)]
        data = (ctypes.c_char_p * len(bytes_of))(*bytes_of)
        lens = (ctypes.c_size_t * len(bytes_of))(*[len(text) for text in bytes_of])
        call(lib.qinfer_session_set_dry_breakers, self, data, lens, len(bytes_of))

    def set_bias(self, bias: Mapping[int, float]) -> None:
        """Adds to the logits of tokens; -inf bans one."""
        values = (ctypes.c_float * len(bias))(*bias.values())
        call(lib.qinfer_session_set_bias, self, tokens_of(bias), values, len(bias))

    def set_grammar(self, grammar: Grammar | None, *, drawn: Iterable[int] = ()) -> None:
        """What is drawn from now on fulfils the grammar. drawn: tokens that were drawn by it before, of a session that was
        loaded, say: a snapshot holds no grammar."""
        if grammar is None:
            call(lib.qinfer_session_set_logits_hook, self, None)
            self._hook = None
        elif not hasattr(grammar, "_install"):
            raise TypeError(f"a Grammar is expected, not {grammar!r:.80}")
        else:
            self._hook = grammar._install(self, drawn)

    def set_logits_hook(
        self,
        apply: Callable[[Any], object] | None,
        accept: Callable[[int], object] | None = None,
        rewind: Callable[[int], object] | None = None,
    ) -> None:
        """Code between logits and sampler. apply gets a copy of the logits (a numpy array where numpy is there, else a ctypes
        array), which is written back after it, and changes it; accept each token drawn; rewind how many are taken back. What they raise ends the call with that
        exception. A fork has no hook. apply None: no hook from now on."""
        for function in (apply, accept, rewind):
            if function is not None:
                expect(Callable, function)
        if apply is None:
            call(lib.qinfer_session_set_logits_hook, self, None)
            self._hook = None
            return
        hook = PythonHook(apply, accept, rewind)
        call(lib.qinfer_session_set_logits_hook, self, ctypes.byref(hook.native))
        self._hook = hook

    def _call(self, function: Any, *arguments: Any, callbacks: Callbacks | None = None) -> None:
        """A call in which the hook may raise."""
        hook = self._hook.callbacks if isinstance(self._hook, PythonHook) else None
        try:
            if hook is None and callbacks is None:
                call(function, self, *arguments)
            else:
                (callbacks or Callbacks()).call(function, self, *arguments)
        except StateError:  # what the hook raised is of the call that this one met
            raise
        except Exception as failure:
            if hook is not None and hook.raised is not None:
                raised, hook.raised = hook.raised, None
                raise raised from None
            reason = self._reason_of(failure)
            if reason is failure:
                raise
            raise reason from None

    def _reason_of(self, failure: Exception) -> Exception:
        """A grammar's hook can only cancel the call."""
        if isinstance(failure, CancelledError) and isinstance(self._hook, Matcher):
            return self._hook.failure or failure
        return failure

    def evaluate(self, *, logits: bool = True, keep_logits: int = 0, cancel: Cancel | None = None) -> None:
        evaluate([self], logits=logits, keep_logits=keep_logits, cancel=cancel)

    def sample(self) -> int:
        """Draws a token from the last logits and appends it."""
        token = ctypes.c_int32()
        self._call(lib.qinfer_session_sample, ctypes.byref(token))
        return token.value

    def logits(self, back: int = 0) -> Any:
        """The logits of the last evaluated token, or of one `back` earlier, without a copy, to read: a numpy array where
        numpy is there, else a memoryview. They are these until the session is evaluated or truncated; a session that is
        closed is freed after the last such array. StateError if not kept."""
        address = ask(lib.qinfer_session_logits, self, back)
        if not address:
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "these logits are not kept", 0)
        array: Any = (ctypes.c_float * self.model._n_vocab).from_address(ctypes.addressof(address.contents))
        array._owner = _Kept(self)
        return floats_of(memoryview(array).cast("B").cast("f").toreadonly())

    def copy_logits(self, room: Any, back: int = 0) -> int:
        """The same row copied into a writable buffer of floats, such as a numpy array of n_vocab float32 or array('f');
        returns how many. BufferTooSmallError where they do not fit."""
        view = memoryview(room)
        if view.format != "f" or not view.c_contiguous:
            raise TypeError("copy_logits() needs a contiguous buffer of 32-bit floats")
        n = ctypes.c_size_t()
        values = (ctypes.c_float * (view.nbytes // 4)).from_buffer(room)
        call(lib.qinfer_session_copy_logits, self, back, values, len(values), ctypes.byref(n))
        return n.value

    def logprobs(self, tokens: Iterable[int], back: int = 0) -> list[float]:
        listed = tokens_of(tokens)
        out = (ctypes.c_double * len(listed))()
        call(lib.qinfer_session_logprobs, self, back, listed, len(listed), out)
        return list(out)

    def top_logprobs(self, n: int, back: int = 0) -> list[tuple[int, float]]:
        """The n most likely tokens with their log probabilities."""
        tokens, values = (ctypes.c_int32 * n)(), (ctypes.c_double * n)()
        call(lib.qinfer_session_top_logprobs, self, back, tokens, values, n)
        return list(zip(tokens, values, strict=True))

    def embedding(self, pooling: Pooling = "default", *, dims: int = 0, scaled: bool = True) -> Any:
        """The session's embedding: embedding_dims floats, or the first dims, of length 1. Without scaled it is as
        pooling and the layers after it give it."""
        options = embedding_options(pooling, dims, scaled)
        n = self.model._embedding_dims if dims == 0 else min(dims, self.model._embedding_dims)
        values, out = (ctypes.c_float * n)(), ctypes.c_size_t()
        try:
            call(lib.qinfer_session_embedding_with, self, ctypes.byref(options), values, n, ctypes.byref(out))
        except StateError as failure:
            message = failure.message.replace("QINFER_SESSION_EMBEDDINGS", "Session(..., embeddings=True)")
            raise StateError(failure.name, failure.status, message, failure.detail) from None
        return floats_of(values)

    def set_pair(self, query: str, document: str, **how: Unpack[ScoreOptions]) -> int:
        """Makes a query and a document the session's tokens, for score(); how many tokens were cut off. How:
        template ("qwen3-reranker") or template_text with {instruction}, {query} and {document}, instruction, yes, no,
        truncate, raw, max_tokens."""
        options, cut = score_options(**how), ctypes.c_uint64()
        first, second = utf8(query), utf8(document)
        texts = first, len(first), second, len(second)
        self._call(lib.qinfer_session_set_pair, *texts, ctypes.byref(options), ctypes.byref(cut))
        return cut.value

    def score(self, **how: Unpack[ScoreOptions]) -> float:
        """How well the document answers the query, once both are evaluated; how: as in set_pair()."""
        options, value = score_options(**how), ctypes.c_float()
        call(lib.qinfer_session_score, self, ctypes.byref(options), ctypes.byref(value))
        return value.value

    # ---- Generating
    def generate(
        self,
        max_tokens: int = 0,
        *,
        stop: Sequence[str] = (),
        on_text: Callable[[str], object] | None = None,
        on_token: Callable[[int, str], object] | None = None,
        on_token_info: Callable[[TokenInfo], object] | None = None,
        top: int = 0,
        cancel: Cancel | None = None,
        reply: Reply | None = None,
        max_reasoning_tokens: int = 0,
    ) -> Generated:
        """Evaluates what is pending and draws tokens until an end token, a stop text or max_tokens (0: no bound but the
        context's). on_text gets new text; on_token each token and the text with it, which may be empty; text that was
        held back comes at the end, with token -1; on_token_info each token with its log probability and those of the
        `top` most likely ones. False from any of them ends the generation, and what they raise is raised here. reply gets each token before the callbacks do, and take() in them gives its parts; while it is in its
        reasoning the session's grammar or hook rests, and after max_reasoning_tokens (0: no bound) that is ended."""
        pieces: list[str] = []
        own = self._cancel_of_call(cancel)
        callbacks = Callbacks(own)

        def receive(text: int, size: int, token: int, _: Any) -> int:
            piece = ctypes.string_at(text, size).decode("utf-8") if size else ""
            if size:
                pieces.append(piece)
            going = on_token is None or on_token(token, piece) is not False
            if size and on_text is not None:
                going = on_text(piece) is not False and going
            return 0 if going else 1

        def inform(info: Any, _: Any) -> int:
            return int(on_token_info is not None and on_token_info(TokenInfo.of(info.contents)) is False)

        options = generate_options(max_tokens, stop, top=top)
        guard = callbacks.guarded(_abi.qinfer_token_fn, receive)
        options.on_token = guard
        if on_token_info is not None:
            options.on_token_info = callbacks.guarded(_abi.qinfer_token_info_fn, inform)
        options.cancel = address_of(Cancel, own)
        options.reply = address_of(Reply, reply)
        options.max_reasoning_tokens = max_reasoning_tokens
        result = sized(_abi.qinfer_generate_result)
        with Held(own), nullcontext() if reply is None else reply._generated():
            evaluated = self._evaluate_prompt(own)
            self._call(lib.qinfer_generate, ctypes.byref(options), ctypes.byref(result), callbacks=callbacks)
        if cancel is None:  # nothing else refers to it, so that nothing requests it late
            self._spare = [own]
        result.cached_tokens += evaluated[0]
        result.prefill_ns += evaluated[1]
        return Generated.of("".join(pieces), result)

    def _cancel_of_call(self, cancel: Cancel | None) -> Cancel:
        """Perhaps one of an earlier call: to make one is a fifth of what Python does for a call."""
        if cancel is None:
            try:
                own = self._spare.pop()
                if not own._requested:
                    return own
            except IndexError:
                pass
        return Cancel.of_call(cancel)

    def _evaluate_prompt(self, ending: Cancel) -> tuple[int, int]:
        """Evaluates a long prompt before generate() does, so that a signal can end it; the tokens of it that were cached, and
        the nanoseconds that it took."""
        if not _is_long([self]):
            return 0, 0
        before = self.metrics
        evaluate([self], cancel=ending)
        after = self.metrics
        return after["cached_tokens"] - before["cached_tokens"], after["prefill_ns"] - before["prefill_ns"]


class _Kept:
    """Keeps a session from being freed, and not from being used."""

    def __init__(self, session: Session) -> None:
        self._session = session
        Handle._begin(session)

    def __del__(self) -> None:
        Handle._end(self._session)
