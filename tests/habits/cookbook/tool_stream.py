"""A call of a function that comes in pieces."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
tools: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather in a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
name, arguments = "", ""
for chunk in client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
    tools=tools,
    temperature=0,
    stream=True,
):
    for call in chunk.choices[0].delta.tool_calls or []:
        if call.function:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
print(name, json.loads(arguments))
# get_weather {'city': 'Oslo'}
