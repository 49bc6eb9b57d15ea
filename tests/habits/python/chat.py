"""The first thing that one tries: a path, a question, the answer as it comes."""

import sys

import qinfer

chat = qinfer.Chat(sys.argv[1])
for part in chat.stream("What is the capital of France?"):
    print(part.text, end="", flush=True)
print()
print(chat.send("What is the capital of Italy?"))
with qinfer.Chat(chat.model, system="Be brief.", sampler={"temperature": 0.7, "seed": 1}) as other:
    print(len(other.send("Hello!", max_tokens=30)) > 0, [message["role"] for message in other.messages])
# The capital of France is Paris.
# The capital of Italy is Rome.
# True ['system', 'user', 'assistant']
