"""qinfer: language models on CPUs.

    import qinfer
    model = qinfer.Model("Qwen/Qwen3-0.6B")         # or a directory, or a GGUF file
    for piece in qinfer.Chat(model).stream("What is the capital of France?"):
        print(piece.text, end="", flush=True)

Names and rules are those of the C ABI (qinfer.h); every failure is a QinferError.
"""

from ._chat import Chat
from ._engine import AsyncEngine, Engine, Piece
from ._errors import (
    BufferTooSmallError,
    CancelledError,
    ContextFullError,
    FormatError,
    InternalError,
    InvalidArgumentError,
    IoError,
    KvFullError,
    NoMemoryError,
    NotFoundError,
    NumericError,
    QinferError,
    StateError,
    UnsupportedError,
)
from ._files import File, Opener
from ._grammar import Grammar
from ._model import Cancel, ChatPrompt, Detokenizer, Model, Runtime, Token, build_info, cpu_info, plan, version
from ._openai import AsyncClient, Client
from ._reply import Part, Reply
from ._session import Generated, KvCache, Session, evaluate, evaluate_stage
from ._store import KvStore
from ._texts import embed, rerank

__all__ = [
    "AsyncClient",
    "AsyncEngine",
    "BufferTooSmallError",
    "Cancel",
    "CancelledError",
    "Chat",
    "ChatPrompt",
    "Client",
    "ContextFullError",
    "Detokenizer",
    "Engine",
    "File",
    "FormatError",
    "Generated",
    "Grammar",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "KvCache",
    "KvFullError",
    "KvStore",
    "Model",
    "NoMemoryError",
    "NotFoundError",
    "NumericError",
    "Opener",
    "Part",
    "Piece",
    "QinferError",
    "Reply",
    "Runtime",
    "Session",
    "StateError",
    "Token",
    "UnsupportedError",
    "build_info",
    "cpu_info",
    "embed",
    "evaluate",
    "evaluate_stage",
    "plan",
    "rerank",
    "version",
]
__version__ = version()
