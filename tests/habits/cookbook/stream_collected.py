"""Chunks that become one message, with its role and the reason that it ended for."""

from openai import OpenAI

client = OpenAI()
chunks = list(
    client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "What is 4 + 3?"}],
        temperature=0,
        stream=True,
    )
)
roles = [chunk.choices[0].delta.role for chunk in chunks if chunk.choices[0].delta.role]
text = "".join([chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content is not None])
reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
print(roles, text, reasons, len({chunk.id for chunk in chunks}))
# ['assistant'] 4 + 3 = 7. ['stop'] 1
