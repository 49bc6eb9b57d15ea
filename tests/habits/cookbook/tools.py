"""A model that calls a function of the program, and answers with what that gives."""

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


def get_weather(city: str) -> str:
    return json.dumps({"city": city, "weather": "sunny"})


messages: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
for _ in range(3):
    message = client.chat.completions.create(
        model="tiny-chat", messages=messages, tools=tools, temperature=0, max_tokens=80
    ).choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        assert call.type == "function"
        arguments = json.loads(call.function.arguments)
        print("call:", call.function.name, arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": get_weather(**arguments)})
print([message["role"] if isinstance(message, dict) else message.role for message in messages][:3])
# call: get_weather {'city': 'Paris'}
# ['user', 'assistant', 'tool']
