"""A response that is JSON by a schema."""

import json

from openai import OpenAI

client = OpenAI()
response = client.responses.create(
    model="tiny-chat",
    input="What is the capital of France?",
    text={
        "format": {
            "type": "json_schema",
            "name": "capital",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
                "required": ["city", "sure"],
                "additionalProperties": False,
            },
        }
    },
    temperature=0,
)
answer = json.loads(response.output_text)
print(sorted(answer), answer["city"] in ("Paris", "Rome"), type(answer["sure"]).__name__)
# ['city', 'sure'] True bool
