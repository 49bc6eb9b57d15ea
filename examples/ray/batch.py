#!/usr/bin/env python3
"""Answers many questions with a model on two nodes of a cluster on this machine, and goes on where it was ended.

batch.py MODEL FOLDER [QUESTIONS]

QUESTIONS is a file with one a line; FOLDER gets the answers as JSON lines. Call it again with more questions: those that are
answered are left out.
"""

import json
import pathlib
import sys

import ray
from two_nodes import two_nodes

import qinfer.ray

if len(sys.argv) < 3:
    sys.exit(__doc__)
model, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
asked = [f"What is the capital of {country}?" for country in ("France", "Italy", "Spain", "Japan")]
if len(sys.argv) > 3:
    asked = pathlib.Path(sys.argv[3]).read_text().splitlines()

with two_nodes():
    ds = ray.data.from_items([{"id": text, "messages": [{"role": "user", "content": text}]} for text in asked])
    print(qinfer.ray.room(model, context=256))
    left = qinfer.ray.remaining(ds, folder)
    if left.count():
        qinfer.ray.batch(left, model, max_tokens=60, context=256).write_json(str(folder))
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            print(row["id"], json.loads(row["message"])["content"])
