"""Events of a stream, and the whole answer after it."""

from openai import OpenAI

client = OpenAI()
with client.chat.completions.stream(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
) as stream:
    for event in stream:
        if event.type == "content.delta":
            print(event.delta, end="")
        elif event.type == "content.done":
            print("\ndone:", event.content)
    completion = stream.get_final_completion()
print(completion.choices[0].finish_reason)
# The capital of France is Paris.
# done: The capital of France is Paris.
# stop
