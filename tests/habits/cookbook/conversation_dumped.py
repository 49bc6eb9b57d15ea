"""A conversation that is stored as JSON between two parts of a program."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
messages: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
answer = client.chat.completions.create(model="tiny-chat", messages=messages, temperature=0)
messages.append(answer.choices[0].message.model_dump(exclude_none=True))
stored = json.dumps(messages)

messages = json.loads(stored)
messages.append({"role": "user", "content": "What is 4 + 3?"})
answer = client.chat.completions.create(model="tiny-chat", messages=messages, temperature=0)
print(answer.choices[0].message.content)
print(json.loads(answer.model_dump_json())["choices"][0]["message"]["role"])
# 4 + 3 = 7.
# assistant
