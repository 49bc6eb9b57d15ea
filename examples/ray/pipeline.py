#!/usr/bin/env python3
"""Tells a story with a model whose layers are on two nodes of a cluster on this machine, one half of which is killed midway.

pipeline.py MODEL [PROMPT]
"""

import os
import signal
import sys

from two_nodes import two_nodes

import qinfer.ray

if len(sys.argv) < 2:
    sys.exit(__doc__)
prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"

with two_nodes(), qinfer.ray.Pipeline(os.path.abspath(sys.argv[1]), context=512, save_every=32) as pipeline:
    for stage, place in zip(pipeline.stages, pipeline.placed.where(), strict=True):
        print(f"layers from {stage['first_layer']} on: node {place['node'][:8]}, process {place['pid']}")
    print(prompt, end="")
    session = pipeline.session(temperature=0.8, seed=5)
    session.append(prompt)
    for n, piece in enumerate(session.stream(120)):
        print(piece, end="", flush=True)
        if n == 60:
            os.kill(pipeline.placed.where()[1]["pid"], signal.SIGKILL)
    print()
