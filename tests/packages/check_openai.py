"""Random requests of OpenAI's interface, right and wrong ones: each answer, chunk and error is what the service's own
specification says.

    check_openai.py MODEL SPECIFICATION [REQUESTS [SEED]]

With the library's Python package on the path. Beyond the specification, but as the service does it: finish_reason of a
completion's chunk may be null until the last one, and log probabilities of a prompt's first token are null.
"""

import base64
import ctypes
import json
import random
import sys

import yaml
from jsonschema import Draft202012Validator, RefResolver

import qinfer
from qinfer import _abi
from qinfer._library import call, lib, read_text, sized
from qinfer._model import ChatPrompt
from qinfer.openai._draw import Answer, Request, _Generation, new_seed

WORDS = ["", "Hi", "What is the capital of France?", "é\n\t\"\\ \U0001f600", "<|im_end|>", "a" * 300, "{}", "null"]


def nullable(schema):
    """JSON schema of what the specification writes with nullable."""
    if isinstance(schema, list):
        return [nullable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: nullable(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [out, {"type": "null"}]} if schema.get("nullable") is True else out


class Validators:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.document = nullable(yaml.safe_load(file))
        completion = self.schemas["CreateCompletionResponse"]["properties"]["choices"]["items"]["properties"]
        logprobs = completion["logprobs"]["anyOf"][0]["properties"]
        for name in ("token_logprobs", "top_logprobs"):
            logprobs[name]["items"] = {"anyOf": [logprobs[name]["items"], {"type": "null"}]}
        chunk = json.loads(json.dumps(self.schemas["CreateCompletionResponse"]))
        reason = chunk["properties"]["choices"]["items"]["properties"]["finish_reason"]
        chunk["properties"]["choices"]["items"]["properties"]["finish_reason"] = {"anyOf": [reason, {"type": "null"}]}
        chunk["properties"]["usage"] = {"anyOf": [chunk["properties"]["usage"], {"type": "null"}]}
        self.schemas["CompletionChunk"] = chunk
        resolver = RefResolver("", self.document)
        self.of = {
            name: Draft202012Validator({"$ref": f"#/components/schemas/{name}"}, resolver=resolver)
            for name in self.schemas
        }

    @property
    def schemas(self):
        return self.document["components"]["schemas"]

    def check(self, name, value, request):
        errors = sorted(self.of[name].iter_errors(value), key=lambda error: len(error.absolute_path))
        if errors:
            where = "/".join(map(str, errors[0].absolute_path))
            sys.exit(f"{name} at {where}: {errors[0].message[:400]}\nrequest: {json.dumps(request)}\nanswer: {value}")


class Requests:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, n):
        return self.random.randrange(n) == 0

    def one(self, *values):
        return self.random.choice(values)

    def junk(self):
        return self.one(None, True, -1, 0, 1, 3.5, 1e400, 2**63, 2**64, "", "x", [], {}, [None], {"a": [1]}, WORDS[3])

    def maybe(self, request, name, make):
        if self.chance(3):
            request[name] = self.junk() if self.chance(40) else make()

    def content(self):
        text = self.one(*WORDS)
        return text if self.chance(2) else [{"type": "text", "text": part} for part in (text, "b")]

    def message(self):
        role = self.one("system", "developer", "user", "user", "assistant", "tool")
        message = {"role": role, "content": self.content()}
        if role == "tool":
            message["tool_call_id"] = "call00000"
        if role == "assistant" and self.chance(2):
            arguments = self.one('{"city": "Oslo"}', "{}", "", "no JSON")
            function = {"name": "get_weather", "arguments": arguments}
            message["tool_calls"] = self.one(None, [], [{"id": "call00000", "type": "function", "function": function}])
            message["content"] = self.one(None, "", "x")
        if self.chance(5):
            message["name"] = self.one(None, "n")
        return message

    def common(self, request):
        self.maybe(request, "model", lambda: self.one("m", "local", "é"))
        self.maybe(request, "temperature", lambda: self.one(0, 0.7, 1, 2))
        self.maybe(request, "top_p", lambda: self.one(0, 0.3, 1))
        self.maybe(request, "n", lambda: self.one(1, 1, 2, 3))
        self.maybe(request, "seed", lambda: self.one(0, -1, 5, 2**63 - 1, 2**64 - 1, -(2**63)))
        self.maybe(request, "stop", lambda: self.one("a", ["e", " the"], [], "\n"))
        self.maybe(request, "stream", lambda: self.one(True, True, False))
        self.maybe(request, "stream_options", lambda: {"include_usage": self.one(True, False)})
        self.maybe(request, "presence_penalty", lambda: self.one(-2, 0.5))
        self.maybe(request, "frequency_penalty", lambda: self.one(-2, 0.5))
        self.maybe(request, "logit_bias", lambda: self.one({}, {"5": -100}, {"7": 3.5, "8": -1}))
        self.maybe(request, "user", lambda: "u")
        if self.chance(60):
            request[self.one("foo", "audio", "best_of", "functions")] = self.junk()

    def chat(self):
        messages = [self.message() for _ in range(self.random.randrange(1, 4))] + [{"role": "user", "content": "Hi"}]
        request = {"messages": self.junk() if self.chance(60) else messages}
        self.common(request)
        request[self.one("max_tokens", "max_completion_tokens")] = self.one(1, 5, 24)
        self.maybe(request, "logprobs", lambda: self.one(True, True, False))
        if request.get("logprobs") is True:
            self.maybe(request, "top_logprobs", lambda: self.one(0, 3, 20))
        properties = {"city": {"type": "string", "description": "The city"}}
        parameters = {"type": "object", "properties": properties, "required": ["city"]}
        function = {"name": "get_weather", "description": "Get the current weather in a city", "parameters": parameters}
        if self.chance(3):
            request["tools"] = self.one([], [{"type": "function", "function": function}])
            request["messages"] = [{"role": "user", "content": "What is the weather in Oslo?"}]
            self.maybe(request, "tool_choice", lambda: self.one("auto", "none", "required"))
            self.maybe(request, "parallel_tool_calls", lambda: self.one(True, False))
        self.maybe(request, "response_format", lambda: {"type": "text"})
        self.maybe(request, "reasoning_effort", lambda: self.one("none", "low", "high"))
        return _abi.QINFER_OPENAI_CHAT, request

    def prompt(self):
        texts = [word for word in WORDS if word]
        return self.one(*texts, texts[:2], [5, 6, 7], [[5], [7, 8, 9]])

    def completion(self):
        request = {"prompt": self.junk() if self.chance(60) else self.prompt()}
        self.common(request)
        self.maybe(request, "max_tokens", lambda: self.one(0, 1, 8))
        self.maybe(request, "logprobs", lambda: self.one(0, 1, 5))
        self.maybe(request, "echo", lambda: self.one(True, True, False))
        return _abi.QINFER_OPENAI_COMPLETION, request

    def embeddings(self):
        request = {"input": self.junk() if self.chance(20) else self.prompt()}
        self.maybe(request, "encoding_format", lambda: self.one("float", "base64"))
        self.maybe(request, "dimensions", lambda: self.one(3, 160))
        return _abi.QINFER_OPENAI_EMBEDDINGS, request

    def next(self):
        kind, request = self.one(self.chat, self.chat, self.completion, self.embeddings)()
        for name in list(request):
            if self.chance(80):
                del request[name]
        return kind, request


class Program:
    def __init__(self, path):
        self.model = qinfer.Model(path, qinfer.Runtime(threads=1))
        cache = qinfer.KvCache(self.model, budget_blocks=64)
        self.session = qinfer.Session(cache, max_tokens=1024, max_logits=32)
        self.embedding = qinfer.Session(cache, max_tokens=512, embeddings=True)

    def bytes_of(self, answer):
        return read_text(lambda *room: lib.qinfer_openai_answer_bytes(answer._handle, *room[:3], None, room[3]), room=16384)

    def error(self, failure):
        error = _abi.qinfer_error(code=failure.status, detail=failure.detail, message=failure.message.encode()[:239])
        return read_text(lib.qinfer_openai_error_json, ctypes.byref(error))

    def answer(self, kind, fields):
        """Bytes, and the request, which is None where it was refused."""
        try:
            request = Request(self.model, kind, json.dumps(fields).encode(), ChatPrompt([]), new_seed())
        except qinfer.QinferError as failure:
            return self.error(failure), None
        with request, Answer(request, "id", "m", 0) as answer:
            if kind == _abi.QINFER_OPENAI_EMBEDDINGS:
                for prompt in range(request.info.n_prompts):
                    call(lib.qinfer_openai_answer_embed, answer, prompt, self.embedding, 0, None)
                return self.bytes_of(answer), request
            info, text = sized(_abi.qinfer_token_info), ""
            for choice in range(request.info.n_choices):
                with _Generation(request, choice, self.session, None) as generation:
                    ended = answer.step(lib.qinfer_openai_answer_begin, choice, generation)
                    while not ended:
                        call(lib.qinfer_generation_next, generation, ctypes.byref(info))
                        ended = answer.step(lib.qinfer_openai_answer_add, choice, generation)
                        text += self.bytes_of(answer)
            return text + self.bytes_of(answer), request


def check(validators, kind, fields, data, request):
    """Returns what kind of answer it was."""
    if request is None:
        validators.check("ErrorResponse", json.loads(data), fields)
        return "refused"
    names = {
        _abi.QINFER_OPENAI_CHAT: ("CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"),
        _abi.QINFER_OPENAI_COMPLETION: ("CreateCompletionResponse", "CompletionChunk"),
        _abi.QINFER_OPENAI_EMBEDDINGS: ("CreateEmbeddingResponse", ""),
    }[kind]
    if not request.streams:
        whole = json.loads(data)
        if fields.get("encoding_format") == "base64":
            for element in whole["data"]:
                element["embedding"] = [float(byte) for byte in base64.b64decode(element["embedding"])]
        validators.check(names[0], whole, fields)
        return names[0]
    assert data.endswith("data: [DONE]\n\n"), data[-200:]
    for event in data.split("\n\n")[:-2]:
        assert event.startswith("data: "), event
        validators.check(names[1], json.loads(event[6:]), fields)
    return names[1]


def main():
    model, specification = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    validators, requests, program, seen = Validators(specification), Requests(seed), Program(model), {}
    for _ in range(n):
        kind, fields = requests.next()
        try:
            data, request = program.answer(kind, fields)
        except qinfer.QinferError as failure:  # of what only a session can tell
            if failure.status not in (_abi.QINFER_E_CONTEXT_FULL, _abi.QINFER_E_NUMERIC):
                sys.exit(f"{failure}\nrequest: {json.dumps(fields)}")
            data, request = program.error(failure), None
        name = check(validators, kind, fields, data, request)
        seen[name] = seen.get(name, 0) + 1
    print(", ".join(f"{name} {count}" for name, count in sorted(seen.items())))
    few = [name for name, count in seen.items() if count < n / 50]
    if few or len(seen) != 6:
        sys.exit(f"too few answers of a kind: {few or seen}")


main()
