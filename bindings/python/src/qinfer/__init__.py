"""qinfer: language models on CPUs.

    import qinfer
    model = qinfer.Model("Qwen/Qwen3-0.6B")         # or a directory, or a GGUF file
    for piece in qinfer.Chat(model).stream("What is the capital of France?"):
        print(piece.text, end="", flush=True)

Names and rules are those of the C ABI (qinfer.h); every failure is a QinferError.
"""

from ._batch import generate
from ._cache import KvCache
from ._cancel import Cancel
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
from ._load import LoadOptions
from ._model import ChatPrompt, Detokenizer, Model, Token
from ._options import ManyOptions, SamplerOptions, ScoreOptions, TurnOptions
from ._plan import PlanOptions, export_gguf, inspect, pack, plan, plan_map
from ._reply import Part, Reply
from ._results import Generated, TokenInfo
from ._runtime import KernelSet, Runtime, build_info, cpu_info, kernel_sets, version
from ._session import Session, evaluate
from ._stage import evaluate_stage
from ._store import KvStore
from ._texts import embed, rerank
from .openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncClient,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    Client,
    InternalServerError,
    LengthFinishReasonError,
    OpenAI,
    OpenAIError,
    RateLimitError,
    pydantic_function_tool,
)

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AsyncClient",
    "AsyncEngine",
    "AsyncOpenAI",
    "AuthenticationError",
    "BadRequestError",
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
    "InternalServerError",
    "InvalidArgumentError",
    "IoError",
    "KernelSet",
    "KvCache",
    "KvFullError",
    "KvStore",
    "LengthFinishReasonError",
    "LoadOptions",
    "ManyOptions",
    "Model",
    "NoMemoryError",
    "NotFoundError",
    "NumericError",
    "OpenAI",
    "OpenAIError",
    "Opener",
    "Part",
    "Piece",
    "PlanOptions",
    "QinferError",
    "RateLimitError",
    "Reply",
    "Runtime",
    "SamplerOptions",
    "ScoreOptions",
    "Session",
    "StateError",
    "Token",
    "TokenInfo",
    "TurnOptions",
    "UnsupportedError",
    "build_info",
    "cpu_info",
    "embed",
    "evaluate",
    "evaluate_stage",
    "export_gguf",
    "generate",
    "inspect",
    "kernel_sets",
    "pack",
    "plan",
    "plan_map",
    "pydantic_function_tool",
    "rerank",
    "version",
]
__version__ = version()
