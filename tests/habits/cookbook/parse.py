"""An answer as an object of pydantic."""

from typing import Literal

from openai import OpenAI
from pydantic import BaseModel


class Capital(BaseModel):
    city: Literal["Paris", "Rome"]
    sure: bool


client = OpenAI()
completion = client.chat.completions.parse(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    response_format=Capital,
    temperature=0,
)
capital = completion.choices[0].message.parsed
assert capital is not None
print(type(capital).__name__, capital.city in ("Paris", "Rome"), capital.sure in (True, False))
# Capital True True
