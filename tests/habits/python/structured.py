"""A model that must answer in JSON, and one that must choose."""

import json
import sys

import qinfer

model = qinfer.Model(sys.argv[1])
schema = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}
answer = json.loads(qinfer.Chat(model).send("What is the capital of France?", grammar=qinfer.Grammar.json_schema(model, schema)))
print(sorted(answer), answer["city"] in ("Paris", "Rome"))
choice = qinfer.Chat(model).send("Is the sky blue?", grammar=qinfer.Grammar.regex(model, "yes|no"))
print(choice in ("yes", "no"))
# ['city', 'sure'] True
# True
