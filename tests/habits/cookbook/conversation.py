"""A conversation whose messages the program keeps, answers as the objects that they came as."""

from typing import Any

from openai import OpenAI

client = OpenAI()
messages: list[Any] = []
for question in ("Hello!", "What is the capital of Italy?", "Thank you."):
    messages.append({"role": "user", "content": question})
    message = client.chat.completions.create(model="tiny-chat", messages=messages, temperature=0).choices[0].message
    messages.append(message)
    print(f"{message.role}: {message.content}")
print(len(messages), "messages")
# assistant: Hello! What can I do for you?
# assistant: The capital of Italy is Rome.
# assistant: You are welcome!
# 6 messages
