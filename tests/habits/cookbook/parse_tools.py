"""Arguments of a call as an object of pydantic."""

from typing import Literal

import openai
from pydantic import BaseModel


class GetWeather(BaseModel):
    """Get the weather in a city"""

    city: Literal["Paris", "Oslo"]


client = openai.OpenAI()
completion = client.chat.completions.parse(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
    tools=[openai.pydantic_function_tool(GetWeather)],
    tool_choice="required",
    temperature=0,
)
calls = completion.choices[0].message.tool_calls
assert calls
print(calls[0].function.name, type(calls[0].function.parsed_arguments).__name__)
# GetWeather GetWeather
