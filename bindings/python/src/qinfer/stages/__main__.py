"""python -m qinfer.stages: one stage of a model, until it is told to end."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from .. import KvCache, Model, Runtime
from ._server import StageServer


def layers_of(text: str) -> range:
    first, _, end = text.partition(":")
    found = range(int(first), int(end))
    if not found:
        raise ValueError
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m qinfer.stages", description=__doc__)
    parser.add_argument("model", help="directory, GGUF file or packed model")
    parser.add_argument("--layers", type=layers_of, required=True, metavar="FIRST:END", help="END is the first one after")
    parser.add_argument("--key-file", type=Path, required=True, help="of 16 bytes or more, the same for all stages")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="default: any")
    parser.add_argument("--cache-bytes", type=int, default=0, help="for keys and values; default: one whole context")
    parser.add_argument("--snapshots", type=Path, help="directory in which sessions are saved, for pipelines that ask")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-target", help="kernel set, which all stages must share")
    args = parser.parse_args()
    try:
        model = Model(args.model, Runtime(threads=args.threads, cpu_target=args.cpu_target), layers=args.layers)
        cache = KvCache(model, budget_bytes=args.cache_bytes)
        server = StageServer(
            cache,
            args.key_file.read_bytes().strip(),
            host=args.host,
            port=args.port,
            snapshots=args.snapshots,
            log=lambda line: print(f"stage: {line}", file=sys.stderr),
        )
    except Exception as failed:  # noqa: BLE001 - each of them is one line
        print(f"stage: {failed}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: server.close())
    signal.signal(signal.SIGINT, lambda *_: server.close())
    print(f"stage: layers {args.layers.start} to {args.layers.stop - 1} at {server.address[0]}:{server.address[1]}", flush=True)
    server.serve()
    return 0


sys.exit(main())
