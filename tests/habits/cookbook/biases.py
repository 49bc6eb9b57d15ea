"""A word that is not to be said."""

from openai import OpenAI

client = OpenAI()
question = "What is the capital of France?"
first = client.chat.completions.create(
    model="tiny-chat", messages=[{"role": "user", "content": question}], temperature=0, frequency_penalty=0.0
)
other = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": question}],
    temperature=0,
    logit_bias={str(token): -100 for token in range(270, 300)},
)
print(first.choices[0].message.content != other.choices[0].message.content)
# True
