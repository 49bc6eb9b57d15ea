"""The shared libraries, their functions, and how failures become exceptions."""

from __future__ import annotations

import _signal  # type: ignore[import]  # signal.getsignal() makes an enum of each answer: 0.4 ms for all, not 10 us
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from sys import is_finalizing
from typing import Any, TypeVar, cast

from . import _abi, _exit
from ._apart import Apart, is_no_thread
from ._errors import ERRORS, QinferError

T = TypeVar("T")
_FOLDER = Path(__file__).parent
_ROOM = 16384
_SIGNALS = [int(number) for number in signal.valid_signals()]
_FLOATS = (ctypes.c_float, ctypes.c_double)
_INTEGERS = (ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t)


def checked(kind: Any, value: Any, name: str = "") -> Any:
    """The value, which ctypes would cut to the type where it does not fit. ValueError then, and TypeError where it is no
    number; both name what it is of."""
    what = f"{name} is {value!r:.80}" if name else f"{value!r:.80}"
    if kind in _INTEGERS and isinstance(value, int):
        bits = 8 * ctypes.sizeof(kind)
        least = -(1 << (bits - 1)) if kind(-1).value < 0 else 0
        if not least <= value < least + (1 << bits):
            raise ValueError(f"{what}, which is out of range: {least} to {least + (1 << bits) - 1} is expected")
    elif kind in _INTEGERS and not hasattr(value, "__index__") or kind in _FLOATS and not hasattr(value, "__float__"):
        raise TypeError(f"{what}, expected a number")
    return value


def _check_of(kind: Any) -> Callable[[Any], Any] | None:
    """What makes an argument of a value, or None: of integers a check that they fit, and of a handle (whose name in C
    `kind` is) one that it is an object of its class, since ctypes would take any number for an address. Called before
    ctypes is: what a signal's handler raises inside of it is lost."""

    def handle(value: Any) -> Any:
        if value is None or isinstance(value, ctypes.c_void_p):
            return value
        expect(_classes.get(kind, Handle), value)
        return pointer(value)

    def integer(value: Any) -> Any:
        return checked(kind, value)

    return handle if isinstance(kind, str) else integer if kind in _INTEGERS else None


def pointer(handle: Handle) -> Any:
    """The handle as an argument of C."""
    return ctypes.c_void_p(handle._handle)


_classes: dict[str, type[Handle]] = {}  # by the name of the handle in C


def expect(kind: Any, value: Any) -> None:
    """TypeError that names the class that is wanted."""
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} is expected, not {value!r:.80}")


def address_of(kind: type[Handle], value: Any) -> int | None:
    """The address of a handle of that class, for a member of a struct; None for None. ValueError after close()."""
    if value is None:
        return None
    expect(kind, value)
    return int(value.native)


def _load(name: str, soname: str, variable: str) -> ctypes.CDLL:
    """The library next to this file, else one that the environment names, else the system's."""
    named = os.environ.get(variable)
    beside = _FOLDER / soname
    library = ctypes.CDLL(named if named else str(beside) if beside.exists() else soname)
    for function, (result, arguments) in _abi.FUNCTIONS.items():
        if function.startswith("qinfer_grammar_") == (name == "qinfer_grammar"):
            found, kinds = getattr(library, function), cast(list[Any], arguments)
            found.restype = result
            found.argtypes = [ctypes.c_void_p if isinstance(kind, str) else kind for kind in kinds]
            found.checks = [_check_of(kind) for kind in kinds]
    return library


lib = _load("qinfer", "libqinfer.so.0.2", "QINFER_LIBRARY")
_grammar_lock = threading.RLock()  # again by a __del__ that runs inside
_grammar_lib: ctypes.CDLL | None = None


def grammar_lib() -> ctypes.CDLL:
    """libqinfer_grammar, loaded when it is first needed: it may not be there."""
    global _grammar_lib
    if _grammar_lib is not None:
        return _grammar_lib
    with _grammar_lock:
        if _grammar_lib is None:
            _grammar_lib = _load("qinfer_grammar", "libqinfer_grammar.so.0.2", "QINFER_GRAMMAR_LIBRARY")
        return _grammar_lib


class _Failure(threading.local):
    """Room for the message of a failed call, one for each thread."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(_ROOM)
        self.full = _abi.qinfer_full_error(struct_size=ctypes.sizeof(_abi.qinfer_full_error))
        self.full.text = ctypes.addressof(self.text)
        self.full.capacity = _ROOM
        self.argument = lib.qinfer_full_error_arg(ctypes.byref(self.full))


_failure = _Failure()


def error_of(status: int, message: str, detail: int) -> QinferError:
    name = lib.qinfer_status_name(status).decode()
    return ERRORS.get(status, QinferError)(name, status, message, detail)


def ask(function: Any, *arguments: Any) -> Any:
    """Calls a function. A Handle among the arguments is not freed meanwhile."""
    with Held(*[argument for argument in arguments if isinstance(argument, Handle)]):
        try:
            result = function(*_checked_arguments(function, arguments))
        except ctypes.ArgumentError as failure:  # of a type of C, whose checks run no Python
            raise TypeError(str(failure)) from None
        _exit.check()
        return result


def _checked_arguments(function: Any, arguments: Sequence[Any]) -> list[Any]:
    checks = getattr(function, "checks", None)
    if checks is None:  # a function of this package
        return list(arguments)
    return [value if check is None else check(value) for check, value in zip(checks, arguments, strict=False)]


def call(function: Any, *arguments: Any) -> None:
    """The same with a function that ends with an error argument. Failures are raised."""
    failure = _failure
    status = ask(function, *arguments, failure.argument)
    if status != 0:
        raise error_of(status, failure.text.value.decode("utf-8", "replace"), failure.full.error.detail)


def call_apart(ending: Handle, function: Any, *arguments: Any) -> None:
    """As call(), of a function that may take long and calls nothing back. On the main thread it runs on one of its own, so
    that the handlers of signals run meanwhile; what they raise requests `ending`, a Cancel of this call alone, and comes
    out once the call is over."""
    if threading.current_thread() is not threading.main_thread():
        return call(function, *arguments)
    end = pointer(ending)
    with Held(ending, *[argument for argument in arguments if isinstance(argument, Handle)]):
        listed = _checked_arguments(function, arguments)

        def work() -> None:
            failure = _failure
            status = function(*listed, failure.argument)
            if status != 0:
                raise error_of(status, failure.text.value.decode("utf-8", "replace"), failure.full.error.detail)

        run_apart(work, lambda: lib.qinfer_cancel_request(end))


def run_apart(work: Callable[[], T], request: Callable[[], object]) -> T:
    """What work gives, on a thread of its own. What handlers of signals raise meanwhile requests its end, and comes out after
    it."""
    ended: list[tuple[Any, BaseException | None]] = []

    def attempt() -> None:
        try:
            ended.append((work(), None))
        except BaseException as raised:  # noqa: BLE001 - raised again by the one who waits
            ended.append((None, raised))

    apart = Apart(attempt)
    try:
        apart.start()
        apart.wait()
    except BaseException as first:
        apart.end(request)
        if ended or not is_no_thread(first):
            raise
        return work()  # no thread can be made where the interpreter ends
    result, failure = ended[0]
    if failure is not None:
        raise failure
    return result  # type: ignore[no-any-return]


def one_of(what: str, words: Mapping[str, int], word: str) -> int:
    """The number that a word stands for. ValueError that lists the words."""
    if not isinstance(word, str) or word not in words:
        known = ", ".join(repr(known) for known in words)
        raise ValueError(f"{what} is {word!r:.80}, expected one of {known}")
    return words[word]


def checked_names(function: str, options: Mapping[str, Any], known: Any) -> None:
    """TypeError for an option that the TypedDict does not have."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def utf8(text: str) -> bytes:
    expect(str, text)
    return text.encode("utf-8")


def sized(struct: Any, **members: Any) -> Any:
    """A struct whose first member is its size."""
    kinds = fields_of(struct)
    values = {name: checked(kinds[name], value, name) for name, value in members.items()}
    return struct(struct_size=ctypes.sizeof(struct), **values)


def fields_of(struct: Any) -> dict[str, Any]:
    """The members of a struct with their types."""
    return dict(struct._fields_)


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    """ValueError where a NUL would end the text in C."""
    if text is None:
        return None
    if not isinstance(text, (str, os.PathLike)):
        raise TypeError(f"a text or a path is expected, not {text!r:.80}")
    data = os.fsencode(text) if isinstance(text, os.PathLike) else text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError(f"{text!r} has a NUL")
    return data


def text_at(address: int | None, size: int) -> str:
    """UTF-8 at an address, which may hold NUL."""
    return ctypes.string_at(address, size).decode("utf-8", "replace") if address and size else ""


def read_text(function: Any, *arguments: Any, room: int = 1024) -> str:
    """What a function writes to (text, capacity, out_n)."""
    n = ctypes.c_size_t()
    while True:
        buffer = ctypes.create_string_buffer(room)
        try:
            call(function, *arguments, buffer, room, ctypes.byref(n))
            return buffer.raw[: n.value].decode("utf-8", "replace")
        except ERRORS[_abi.QINFER_E_BUFFER_TOO_SMALL]:
            if n.value < room:  # something else was too small
                raise
            room = max(n.value + 1, 2 * room)


def read_list(kind: Any, function: Any, *arguments: Any, room: int = 256) -> list[int]:
    """What a function writes to (numbers, capacity, out_n)."""
    n = ctypes.c_size_t()
    while True:
        buffer = (kind * room)()
        try:
            call(function, *arguments, buffer, room, ctypes.byref(n))
            return list(buffer[: n.value])
        except ERRORS[_abi.QINFER_E_BUFFER_TOO_SMALL]:
            if n.value <= room:
                raise
            room = max(n.value, 2 * room)


def read_tokens(function: Any, *arguments: Any, room: int = 256) -> list[int]:
    return read_list(ctypes.c_int32, function, *arguments, room=room)


def tokens_of(tokens: Iterable[int]) -> Any:
    """Tokens as an array of C."""
    listed = list(tokens)
    return (ctypes.c_int32 * len(listed))(*[checked(ctypes.c_int32, token) for token in listed])


def members_of(struct: Any, without: Iterable[str] = ()) -> dict[str, Any]:
    """A struct as a dict: texts as str, no sizes and reserved members."""
    out = {}
    for name, *_ in struct._fields_:
        value = getattr(struct, name)
        if name not in ("struct_size", "reserved") and name not in without:
            value = list(value) if isinstance(value, ctypes.Array) else value
            out[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return out


def read_struct(kind: type[T], struct: Any, function: Any, *arguments: Any) -> T:
    """What a function fills, as a dict with the members of `kind`."""
    filled = sized(struct)
    call(function, *arguments, ctypes.byref(filled))
    return cast(T, members_of(filled))


class Callbacks:
    """Keeps what callbacks raise until the call that made them is over, and what handlers of signals raise, which would be
    lost between C and a callback. `ending` is a Cancel of the call's own, for that."""

    def __init__(self, ending: Handle | None = None) -> None:
        self.raised: BaseException | None = None
        self._ending = ending

    def _keeping(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The handler of a signal, of which what it raises is kept."""

        def keep(*arguments: Any) -> None:
            try:
                handler(*arguments)
            except BaseException as raised:  # noqa: BLE001 - raised again by call()
                self.raised = raised
                if self._ending is not None:
                    lib.qinfer_cancel_request(pointer(self._ending))

        return keep

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """What handlers of signals raise is kept, where Python would raise it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        installed: list[tuple[int, Any, Any]] = []
        try:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    installed.append((number, self._keeping(handler), handler))
                    _signal.signal(number, installed[-1][1])
            yield
        finally:
            while installed:
                try:
                    number, kept, handler = installed[-1]
                    if _signal.getsignal(number) is kept:  # not one that was set meanwhile
                        _signal.signal(number, handler)
                    installed.pop()
                except BaseException as raised:  # noqa: BLE001 - of a handler that is its own again
                    self.raised = self.raised or raised

    def guarded(self, kind: Any, function: Callable[..., Any], failed: Any = 1, always: bool = False) -> Any:
        """A C callback that calls `function`. What it raises ends the call: `failed` is returned, and from then on
        without calling it, unless that is `always` to be done."""

        def guard(*arguments: Any) -> Any:
            if not always and (self.raised is not None or _exit.refusing):
                return failed
            try:
                return function(*arguments)
            except BaseException as raised:  # noqa: BLE001 - no exception may pass through C
                self.raised = self.raised or raised
                return failed

        _exit.callbacks.add(guard.__code__)
        return kind(guard)

    def call(self, function: Any, *arguments: Any) -> None:
        """As call(); what a callback raised comes first."""
        try:
            with self._interruptible():
                call(function, *arguments)
        except QinferError:
            if self.raised is None:
                raise
        self._raise()

    def _raise(self) -> None:
        raised, self.raised = self.raised, None
        try:
            if raised is not None:
                raise raised
        finally:
            del raised  # no cycle with its traceback


_handles = threading.RLock()  # again by a __del__ that runs inside
_no_lock: AbstractContextManager[Any] = nullcontext()


def handles() -> AbstractContextManager[Any]:
    """The lock of all handles. After the interpreter there is one thread, and one that is no more may have it."""
    return _no_lock if is_finalizing() else _handles


def locks_handles() -> bool:
    """Whether this thread has that lock, as a __del__ may find that the collector runs."""
    return not is_finalizing() and bool(_handles._is_owned())  # type: ignore[attr-defined]


def _free_lock() -> None:
    """In a child of fork(), where a thread that there is not may have it."""
    global _handles
    _handles = threading.RLock()


os.register_at_fork(after_in_child=_free_lock)


class Handle:
    """An object of the library. It is freed by close(), at the end of a with statement, or when nothing refers to it; what
    was made from it keeps what it needs. While a call of another thread uses it, close() leaves the freeing to that."""

    _free: str = ""
    _instead = "make another"  # what to do where a copy is wanted
    _handle: int | None = None
    _closed = False
    _users = 0

    def __init_subclass__(cls) -> None:
        _classes.setdefault(cls._free.removesuffix("_free"), cls)

    def __reduce_ex__(self, _: Any) -> Any:
        """No copies, and no pickles for other processes: two objects would free one handle."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: {self._instead}")

    @property
    def native(self) -> int:
        """The handle of the C ABI. ValueError after close()."""
        if self._handle is None or self._closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._handle

    def _begin(self) -> None:
        """Keeps the handle until _end()."""
        with handles():
            _ = self.native
            self._users += 1

    def _end(self) -> None:
        with handles():
            self._users -= 1
            last = self._closed and self._users == 0
        if last:
            self._release()

    def _create(self, call_create: Callable[[Any], None]) -> None:
        out = ctypes.c_void_p()
        try:
            call_create(ctypes.byref(out))
        except BaseException:  # of a callback, perhaps, in a call that made something
            self._handle = out.value
            self.close()
            raise
        self._handle = out.value

    def _library(self) -> ctypes.CDLL:
        return lib

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(self._library(), self._free)(ctypes.c_void_p(handle))

    def close(self) -> None:
        with handles():
            now = not self._closed and self._users == 0
            self._closed = True
        if now:
            self._release()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle is not None:
            self.close()


class Held:
    """A with statement during which handles are not freed, and for whose end that of the interpreter waits. None stands
    for no handle."""

    def __init__(self, *handles: Handle | None) -> None:
        self._wanted = [handle for handle in handles if handle is not None]
        self._held: list[Handle] = []

    def __enter__(self) -> None:
        try:
            _exit.calls[self] = threading.get_ident()
            _exit.check()
            for handle in self._wanted:
                handle._begin()
                self._held.append(handle)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        while self._held:
            self._held.pop()._end()
        _exit.calls.pop(self, None)
