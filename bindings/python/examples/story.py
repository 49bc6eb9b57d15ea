#!/usr/bin/env python3
"""Tells a story: streams what a model makes of a prompt, and stops it where a sentence ends.

story.py MODEL [PROMPT]
"""

import sys

import qinfer

if len(sys.argv) < 2:
    sys.exit(__doc__)
prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"

session = qinfer.Session(qinfer.Model(sys.argv[1]))
session.set_sampler(temperature=0.8, top_p=0.95, seed=5)
session.append(prompt)
print(prompt, end="")

written = 0
for text in session.stream():
    print(text, end="", flush=True)
    written += len(text)
    if written > 200 and text.endswith("."):
        break
metrics = session.metrics
print(f"\n\n{metrics['decode_tokens']} tokens, {metrics['decode_tokens'] / metrics['decode_ns'] * 1e9:.0f} a second")
