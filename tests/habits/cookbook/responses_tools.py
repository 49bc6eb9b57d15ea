"""A model that calls a function of the program, by the responses' interface."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
tools: list[Any] = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": False,
    }
]
items: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
for _ in range(3):
    response = client.responses.create(model="tiny-chat", input=items, tools=tools, temperature=0, max_output_tokens=80)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        arguments = json.loads(call.arguments)
        print("call:", call.name, arguments)
        output = json.dumps({"city": arguments["city"], "weather": "sunny"})
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    if not calls:
        break
print([item.get("type", "message") if isinstance(item, dict) else item.type for item in items][1:4])
# call: get_weather {'city': 'Paris'}
# ['reasoning', 'function_call', 'function_call_output']
