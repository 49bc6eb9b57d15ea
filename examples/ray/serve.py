"""OpenAI's interface on two nodes of Ray: starts them on this machine, asks the application something, and ends.

    python serve.py MODEL

On a cluster that is there already, `serve run serve:application` with QINFER_MODEL is all that is needed; what a client
sees is the same."""

import json
import os
import sys
import urllib.request

if len(sys.argv) > 1:
    os.environ["QINFER_MODEL"] = os.path.abspath(sys.argv[1])
model = os.environ["QINFER_MODEL"]

from ray import serve

import qinfer.ray

application = qinfer.ray.app(
    model,
    replicas=(1, 8),  # the fewest and the most
    threads=1,  # of each, for which a node has so many CPUs
    context=1024,  # tokens of a prompt and its answer together
)


def ask(port, text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_completion_tokens": 40}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def main():
    from two_nodes import two_nodes

    with two_nodes():
        serve.start(http_options={"host": "127.0.0.1", "port": 8123})
        serve.run(application)
        print(ask(8123, "What is the capital of Japan?"))
        serve.shutdown()


if __name__ == "__main__":
    main()
