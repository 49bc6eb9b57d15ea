#!/usr/bin/env python3
"""Compares qinfer with the libraries of others over random inputs: `./dev oracle`. See README.md beside this file.

Prints for each comparison how much was compared and how much differs, and what was left out and why. Exit status 1 if
anything differs, or if a comparison compared nothing.
"""
import argparse
import importlib
import sys
import time
import traceback

from oracle import Comparison, LeftOut

NAMES = ["chat", "openai", "tokens", "encoders", "logits", "gguf", "grammar"]


def run(name, args):
    """Whether the comparison ran and found no difference."""
    comparison = Comparison(name, args.seed, args.seconds, args.case)
    try:
        importlib.import_module(f"compare_{name}").compare(comparison)
    except LeftOut as why:
        print(f"{name}: left out: {why}", flush=True)
        return not args.only  # who asks for it by name wants it to run
    except Exception:  # of a foreign library, or a call that must not fail: the other comparisons still run
        traceback.print_exc()
        print(f"{name}: FAILED by this exception", flush=True)
        comparison.end()
        return False
    return comparison.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {','.join(NAMES)}, separated by commas")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="gives the same cases again (default: the time)")
    parser.add_argument("--seconds", type=float, default=60, help="for each comparison (default 60)")
    parser.add_argument("--case", type=int, help="one case of the seed alone")
    args = parser.parse_args()
    unknown = set(args.only or []) - set(NAMES)
    if unknown:
        parser.error(f"no such comparison: {', '.join(sorted(unknown))}")
    print(f"seed {args.seed}", flush=True)
    passed = [run(name, args) for name in args.only or NAMES]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
