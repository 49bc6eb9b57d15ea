"""Several texts that go on, in one stream."""

from openai import OpenAI

client = OpenAI()
texts = {0: "", 1: ""}
for part in client.completions.create(
    model="tiny-chat", prompt=["Once there was a", "The capital of"], max_tokens=6, temperature=0, stream=True
):
    for choice in part.choices:
        texts[choice.index] += choice.text
alone = client.completions.create(model="tiny-chat", prompt="The capital of", max_tokens=6, temperature=0)
print(sorted(texts), texts[1] == alone.choices[0].text, texts[0] != texts[1])
# [0, 1] True True
