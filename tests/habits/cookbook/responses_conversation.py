"""A conversation whose turns have what was said before: nothing is stored."""

from typing import Any

from openai import OpenAI

client = OpenAI()
history: list[Any] = []
for question in ("What is the capital of France?", "How many days are in a week?"):
    history.append({"role": "user", "content": question})
    response = client.responses.create(model="tiny-chat", input=history, temperature=0, store=False)
    history += response.output
    print(response.output_text)
print([item["role"] if isinstance(item, dict) else item.role for item in history])
# The capital of France is Paris.
# A week has seven days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.
# ['user', 'assistant', 'user', 'assistant']
