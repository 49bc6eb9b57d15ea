"""The interface of the service's package on models in this process: `from qinfer.openai import OpenAI` instead of
`from openai import OpenAI`, or `import qinfer.openai as openai`. No server, and no other packages."""

from ._client import AsyncClient, AsyncOpenAI, Client, OpenAI
from ._errors import (
    APIConnectionError,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    ContentFilterFinishReasonError,
    InternalServerError,
    LengthFinishReasonError,
    NotFoundError,
    OpenAIError,
    PermissionDeniedError,
    RateLimitError,
    UnprocessableEntityError,
)
from ._fields import NOT_GIVEN, NotGiven, omit
from ._streams import AsyncStream, Stream
from ._strict import pydantic_function_tool

Omit = NotGiven
__all__ = [
    "NOT_GIVEN",
    "APIConnectionError",
    "APIError",
    "APIResponseValidationError",
    "APIStatusError",
    "APITimeoutError",
    "AsyncClient",
    "AsyncOpenAI",
    "AsyncStream",
    "AuthenticationError",
    "BadRequestError",
    "Client",
    "ConflictError",
    "ContentFilterFinishReasonError",
    "InternalServerError",
    "LengthFinishReasonError",
    "NotFoundError",
    "NotGiven",
    "Omit",
    "OpenAI",
    "OpenAIError",
    "PermissionDeniedError",
    "RateLimitError",
    "Stream",
    "UnprocessableEntityError",
    "omit",
    "pydantic_function_tool",
]
