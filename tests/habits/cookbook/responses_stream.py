"""A response that is printed while it is drawn."""

from openai import OpenAI

client = OpenAI()
stream = client.responses.create(
    model="tiny-chat",
    input=[{"role": "user", "content": "How many days are in a week?"}],
    temperature=0,
    stream=True,
)
text = ""
for event in stream:
    if event.type == "response.output_text.delta":
        text += event.delta
        print(event.delta, end="", flush=True)
    elif event.type == "response.completed":
        print()
        print(event.response.output_text == text, event.response.status)
# A week has seven days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.
# True completed
