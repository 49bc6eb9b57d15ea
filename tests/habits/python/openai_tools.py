"""The loop of programs for OpenAI's package, whose past is not evaluated again, with each member that such programs ask."""

import sys
from typing import Any

import qinfer

client = qinfer.OpenAI(model=sys.argv[1])
messages: list[Any] = []
cached = []
for i in range(3):
    messages.append({"role": "user", "content": f"What is {i + 1} + 3? " + "I like numbers very much. " * 8})
    response = client.chat.completions.create(model="any", messages=messages, temperature=0, max_tokens=60)
    message = response.choices[0].message
    assert not message.tool_calls and message.refusal is None
    messages.append(message)
    assert response.usage is not None and response.usage.prompt_tokens_details is not None
    cached.append(response.usage.prompt_tokens_details.cached_tokens or 0)
print(cached[0], cached[1] > 40, cached[2] > cached[1] + 40)
text = ""
for chunk in client.chat.completions.create(messages=messages[:1], stream=True, temperature=0):
    text += chunk.choices[0].delta.content or ""
print(len(text) > 0)
# 0 True True
# True
