"""A function that must be called, and one that must not."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
tools: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "strict": True,
            "description": "Get the weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
forced: Any = {"type": "function", "function": {"name": "get_weather"}}
message = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "Hello!"}],
    tools=tools,
    tool_choice=forced,
    temperature=0,
).choices[0].message
assert message.tool_calls and message.tool_calls[0].type == "function"
print(json.loads(message.tool_calls[0].function.arguments)["city"] in ("Paris", "Oslo"))
message = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "Hello!"}],
    tools=tools,
    tool_choice="none",
    temperature=0,
).choices[0].message
print(message.tool_calls, message.content)
# True
# None Hello! What can I do for you?
