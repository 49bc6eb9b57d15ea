"""Data that is taken out of a text as a list of fixed words."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
items: dict[str, Any] = {"type": "array", "items": {"enum": ["cat", "dog", "sea"]}, "minItems": 1, "maxItems": 3}
schema: dict[str, Any] = {
    "type": "object",
    "properties": {"words": items},
    "required": ["words"],
    "additionalProperties": False,
}
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "Tell me a story."}],
    response_format={"type": "json_schema", "json_schema": {"name": "words", "strict": True, "schema": schema}},
    temperature=0,
    max_tokens=300,
)
words = json.loads(response.choices[0].message.content or "")["words"]
print(1 <= len(words) <= 3 and set(words) <= {"cat", "dog", "sea"})
# True
