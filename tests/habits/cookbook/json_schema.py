"""An answer that fulfils a schema, strictly."""

import json
from typing import Any

from openai import OpenAI

client = OpenAI()
schema: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Rome", "Oslo"]},
        "country": {"type": "string", "maxLength": 10},
    },
    "required": ["city", "country"],
    "additionalProperties": False,
}
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    response_format={"type": "json_schema", "json_schema": {"name": "capital", "strict": True, "schema": schema}},
    temperature=0,
    max_tokens=100,
)
answer = json.loads(response.choices[0].message.content or "")
print(sorted(answer), answer["city"] in ("Paris", "Rome", "Oslo"), len(answer["country"]) <= 10)
# ['city', 'country'] True True
