"""What responses are made of, and the events of their streams, under the names that the service's package has for them."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from ._object import Object

T = TypeVar("T")
Status = Literal["in_progress", "completed", "incomplete"]


class ResponseOutputText(Object):
    """annotations and logprobs are empty. parsed: of parse()."""

    type: Literal["output_text"]
    text: str
    annotations: list[Object]
    logprobs: list[Object] | None
    parsed: Any


class ResponseOutputMessage(Object):
    id: str
    type: Literal["message"]
    status: Status
    role: Literal["assistant"]
    content: list[ResponseOutputText]


class ResponseReasoningText(Object):
    type: Literal["reasoning_text"]
    text: str


class ResponseReasoningItem(Object):
    """What the model thought before, where its template marks that; the summary is empty."""

    id: str
    type: Literal["reasoning"]
    status: Status | None
    summary: list[Object]
    content: list[ResponseReasoningText] | None
    encrypted_content: str | None


class ResponseFunctionToolCall(Object):
    """arguments: JSON as text. parsed_arguments: of parse(), with a tool that pydantic_function_tool() made."""

    id: str | None
    type: Literal["function_call"]
    status: Status | None
    call_id: str
    name: str
    arguments: str
    parsed_arguments: Any


ResponseOutputItem = ResponseOutputMessage | ResponseReasoningItem | ResponseFunctionToolCall
ContentPart = ResponseOutputText | ResponseReasoningText


class InputTokensDetails(Object):
    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(Object):
    reasoning_tokens: int


class ResponseUsage(Object):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseError(Object):
    code: str
    message: str


class IncompleteDetails(Object):
    reason: Literal["max_output_tokens", "content_filter"] | None


class Response(Object):
    """Nothing of it is stored. output_text: the texts of its messages."""

    id: str
    object: Literal["response"]
    created_at: float
    completed_at: float | None
    status: Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"] | None
    background: bool | None
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: Any
    max_output_tokens: int | None
    metadata: dict[str, str] | None
    model: str
    output: list[ResponseOutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: Object | None
    store: bool | None
    temperature: float | None
    text: Object | None
    tool_choice: Any
    tools: list[Object]
    top_p: float | None
    truncation: str | None
    usage: ResponseUsage | None

    @property
    def output_text(self) -> str:
        messages = [item for item in self.output if item.type == "message"]
        return "".join(part.text for message in messages for part in message.content)


class ParsedResponse(Response, Generic[T]):
    """output_parsed: the first text as an object of the class that was asked for."""

    @property
    def output_parsed(self) -> T | None:
        for item in self.output:
            if item.type == "message":
                for part in item.content:
                    if part.parsed is not None:
                        return part.parsed  # type: ignore[no-any-return]
        return None


class ResponseCreatedEvent(Object):
    type: Literal["response.created"]
    sequence_number: int
    response: Response


class ResponseInProgressEvent(Object):
    type: Literal["response.in_progress"]
    sequence_number: int
    response: Response


class ResponseCompletedEvent(Object):
    type: Literal["response.completed"]
    sequence_number: int
    response: Response


class ResponseIncompleteEvent(Object):
    """In place of response.completed, where max_output_tokens has cut it off."""

    type: Literal["response.incomplete"]
    sequence_number: int
    response: Response


class ResponseOutputItemAddedEvent(Object):
    type: Literal["response.output_item.added"]
    sequence_number: int
    output_index: int
    item: ResponseOutputItem


class ResponseOutputItemDoneEvent(Object):
    type: Literal["response.output_item.done"]
    sequence_number: int
    output_index: int
    item: ResponseOutputItem


class ResponseContentPartAddedEvent(Object):
    type: Literal["response.content_part.added"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    part: ContentPart


class ResponseContentPartDoneEvent(Object):
    type: Literal["response.content_part.done"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    part: ContentPart


class ResponseTextDeltaEvent(Object):
    type: Literal["response.output_text.delta"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[Object]


class ResponseTextDoneEvent(Object):
    type: Literal["response.output_text.done"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[Object]


class ResponseReasoningTextDeltaEvent(Object):
    type: Literal["response.reasoning_text.delta"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    delta: str


class ResponseReasoningTextDoneEvent(Object):
    type: Literal["response.reasoning_text.done"]
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    text: str


class ResponseFunctionCallArgumentsDeltaEvent(Object):
    type: Literal["response.function_call_arguments.delta"]
    sequence_number: int
    item_id: str
    output_index: int
    delta: str


class ResponseFunctionCallArgumentsDoneEvent(Object):
    type: Literal["response.function_call_arguments.done"]
    sequence_number: int
    item_id: str
    output_index: int
    name: str
    arguments: str


ResponseStreamEvent = (
    ResponseCreatedEvent
    | ResponseInProgressEvent
    | ResponseCompletedEvent
    | ResponseIncompleteEvent
    | ResponseOutputItemAddedEvent
    | ResponseOutputItemDoneEvent
    | ResponseContentPartAddedEvent
    | ResponseContentPartDoneEvent
    | ResponseTextDeltaEvent
    | ResponseTextDoneEvent
    | ResponseReasoningTextDeltaEvent
    | ResponseReasoningTextDoneEvent
    | ResponseFunctionCallArgumentsDeltaEvent
    | ResponseFunctionCallArgumentsDoneEvent
)
