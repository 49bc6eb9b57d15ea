"""An answer that is printed while it is drawn."""

from openai import OpenAI

client = OpenAI()
stream = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "How many days are in a week?"}],
    temperature=0,
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
# A week has seven days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.
