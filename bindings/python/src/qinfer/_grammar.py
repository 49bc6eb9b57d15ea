"""JSON schemas, regular expressions and Lark grammars for what a session draws."""

from __future__ import annotations

import ctypes
import json
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi
from ._errors import QinferError
from ._library import Handle, Held, address_of, call, expect, fields_of, grammar_lib, lib, sized, tokens_of, utf8
from ._model import Model

_vocabularies: weakref.WeakKeyDictionary[Model, _Vocabulary] = weakref.WeakKeyDictionary()
_vocabularies_lock = threading.RLock()


class _Vocabulary(Handle):
    """The tokens of a model, made once for each."""

    _free = "qinfer_grammar_vocab_free"

    def __init__(self, model: Model) -> None:
        kinds = fields_of(_abi.qinfer_grammar_vocab_options)
        options = sized(_abi.qinfer_grammar_vocab_options, n_tokens=model.info["n_vocab"])
        options.model = address_of(Model, model)
        options.token_text = ctypes.cast(lib.qinfer_token_text, kinds["token_text"])
        options.token_flags = ctypes.cast(lib.qinfer_token_flags, kinds["token_flags"])
        library = grammar_lib()
        with Held(model):
            self._create(lambda out: call(library.qinfer_grammar_vocab_create, ctypes.byref(options), out))

    def _library(self) -> ctypes.CDLL:
        return grammar_lib()

    @classmethod
    def of(cls, model: Model) -> _Vocabulary:
        with _vocabularies_lock:
            found = _vocabularies.get(model)
            if found is None:
                found = _vocabularies[model] = cls(model)
            return found


class Grammar(Handle):
    """A compiled text; Session.set_grammar() uses it, for any number of sessions of the model. OSError where
    libqinfer_grammar was not built."""

    _free = "qinfer_grammar_free"

    def __init__(self, model: Model, kind: int, text: str, *, any_space: bool = False) -> None:
        expect(Model, model)
        self.source = kind, text, any_space
        options = sized(_abi.qinfer_grammar_options, flags=_abi.QINFER_GRAMMAR_ANY_SPACE if any_space else 0)
        data = utf8(text)
        vocabulary, compile_text = _Vocabulary.of(model), grammar_lib().qinfer_grammar_compile
        self._create(
            lambda out: call(compile_text, vocabulary, kind, data, len(data), ctypes.byref(options), out)
        )

    @classmethod
    def json_schema(cls, model: Model, schema: Mapping[str, Any] | bool | str, *, any_space: bool = False) -> Grammar:
        """JSON that fulfils a schema, given as JSON or as what json.loads() makes of it. UnsupportedError names a keyword
        that no grammar enforces."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return cls(model, _abi.QINFER_GRAMMAR_JSON_SCHEMA, text, any_space=any_space)

    @classmethod
    def regex(cls, model: Model, pattern: str) -> Grammar:
        return cls(model, _abi.QINFER_GRAMMAR_REGEX, pattern)

    @classmethod
    def lark(cls, model: Model, text: str) -> Grammar:
        return cls(model, _abi.QINFER_GRAMMAR_LARK, text)

    def _library(self) -> ctypes.CDLL:
        return grammar_lib()

    def _install(self, session: Handle, drawn: Iterable[int]) -> Matcher:
        hook, matcher = sized(_abi.qinfer_logits_hook), Matcher(self)
        matcher.accept(drawn)
        call(grammar_lib().qinfer_grammar_matcher_hook, matcher, ctypes.byref(hook))
        try:
            call(lib.qinfer_session_set_logits_hook, session, ctypes.byref(hook))
        except Exception:
            hook.release(hook.user)
            raise
        return matcher


class Matcher(Handle):
    """Where the text of a session stands in a grammar. The session's hook holds it, too."""

    _free = "qinfer_grammar_matcher_free"

    def __init__(self, grammar: Grammar) -> None:
        self._create(lambda out: call(grammar_lib().qinfer_grammar_matcher_create, grammar, out))

    def _library(self) -> ctypes.CDLL:
        return grammar_lib()

    def accept(self, tokens: Iterable[int]) -> None:
        listed = tokens_of(tokens)
        call(grammar_lib().qinfer_grammar_matcher_accept, self, listed, len(listed))

    @property
    def failure(self) -> QinferError | None:
        """Why nothing can be drawn any more: a limit, or no token of the vocabulary that goes on."""
        try:
            call(grammar_lib().qinfer_grammar_matcher_error, self)
        except QinferError as failed:
            return failed
        return None
