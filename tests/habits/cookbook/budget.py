"""What a program has used so far."""

from openai import OpenAI

client = OpenAI()
used = 0
for question in ("Hello!", "What is 4 + 3?", "Thank you."):
    response = client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": question}], temperature=0, user="user-1"
    )
    assert response.usage is not None
    used += response.usage.total_tokens
    details = response.usage.prompt_tokens_details
    assert details is None or (details.cached_tokens or 0) <= response.usage.prompt_tokens
print(used > 30)
# True
