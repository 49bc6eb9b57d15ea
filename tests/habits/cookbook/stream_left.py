"""A stream that is left after the first sentence."""

from openai import OpenAI

client = OpenAI()
text = ""
with client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "Tell me a story."}],
    temperature=0,
    stream=True,
) as stream:
    for chunk in stream:
        text += chunk.choices[0].delta.content or ""
        if "." in text:
            break
print(text)
# Once there was a cat who wanted to see the sea.
