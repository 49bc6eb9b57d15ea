#!/usr/bin/env python3
"""Test suites that nobody here wrote, run against qinfer-server: `./dev serve-suites [NAME...]`.

Each NAME is a module suite_NAME.py. What it needs is installed below build/suites from the Python and npm registries,
with the versions of requirements-NAME.txt and package.json. A suite gives a result for each of its tests, and
expected-NAME.txt says which must pass, and why each other one is left out. At the end there is a table. Exit status 1 if
a test that must pass has not, if one is missing, or if one fails that no list names. A test that passes although it is
left out is told, and changes nothing.
"""
import argparse
import importlib
import pathlib
import sys
import time
import traceback

from suites import Context, LeftOut, compare

NAMES = ["schemathesis", "clients", "llama", "langchain", "lm-eval"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(name, context, is_named):
    """A row of the table, and whether all is as expected."""
    begin = time.monotonic()
    print(f"== {name}", flush=True)
    suite = importlib.import_module("suite_" + name.replace("-", "_"))
    try:
        results = suite.run(context)
    except LeftOut as why:
        print(f"{name}: left out: {why}", flush=True)
        return f"| {name} | left out | | |", not is_named  # who asks for it by name wants it to run
    except Exception:  # a suite that could not run: the others still do
        traceback.print_exc()
        return f"| {name} | could not run | | |", False
    compared = compare(name, results)
    seconds = time.monotonic() - begin
    print(f"{name}: {compared.summary()}, {seconds:.0f} s", flush=True)
    return f"| {name} | {compared.n_passed} | {compared.n_left_out} | {compared.n_wrong} |", compared.n_wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--server", default=ROOT / "build/release/server/qinfer-server", type=pathlib.Path)
    parser.add_argument("--library", default=ROOT / "build/release/libqinfer.so", type=pathlib.Path)
    parser.add_argument("--work", default=ROOT / "build/suites", type=pathlib.Path, help="where all is installed")
    args = parser.parse_args()
    unknown = set(args.names) - set(NAMES)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    context = Context(ROOT, args.server.resolve(), args.library.resolve(), args.work.resolve())
    rows = [run(name, context, bool(args.names)) for name in args.names or NAMES]
    print("\n| suite | pass, as they must | left out | wrong |\n|---|---|---|---|", *(row for row, _ in rows), sep="\n")
    sys.exit(0 if all(good for _, good in rows) else 1)


if __name__ == "__main__":
    main()
