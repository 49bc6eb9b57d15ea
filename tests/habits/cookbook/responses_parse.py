"""A response as an object of pydantic."""

from typing import Literal

from openai import OpenAI
from pydantic import BaseModel


class Capital(BaseModel):
    city: Literal["Paris", "Rome"]
    sure: bool


client = OpenAI()
response = client.responses.parse(
    model="tiny-chat",
    input="What is the capital of France?",
    text_format=Capital,
    temperature=0,
)
capital = response.output_parsed
assert capital is not None
print(type(capital).__name__, capital.city in ("Paris", "Rome"), capital.sure in (True, False))
# Capital True True
