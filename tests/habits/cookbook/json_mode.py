"""An answer that is JSON."""

import json

from openai import OpenAI

client = OpenAI()
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France? Answer in JSON."}],
    response_format={"type": "json_object"},
    temperature=0,
    max_tokens=400,
    stop=None,
)
content = response.choices[0].message.content or ""
print(content.startswith("{"))
if response.choices[0].finish_reason == "stop":
    print(type(json.loads(content)) is dict)
else:
    print(response.choices[0].finish_reason == "length")
# True
# True
