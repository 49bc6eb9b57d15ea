"""A bound on how long an answer may take."""

import openai

client = openai.OpenAI(timeout=60.0, max_retries=0)
print(
    client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "What is 4 + 3?"}], temperature=0
    ).choices[0].message.content
)
try:
    client.with_options(timeout=0.0001).chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "Tell me a story."}]
    )
except openai.APITimeoutError as error:
    print(type(error).__name__)
# 4 + 3 = 7.
# APITimeoutError
