"""Several answers to one question, the most frequent of which is taken."""

from collections import Counter

from openai import OpenAI

client = OpenAI()
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    n=5,
    temperature=0.7,
    seed=1,
)
answers = Counter(choice.message.content for choice in response.choices)
print([choice.index for choice in response.choices])
print(answers.most_common(1)[0][0])
# [0, 1, 2, 3, 4]
# The capital of France is Paris.
