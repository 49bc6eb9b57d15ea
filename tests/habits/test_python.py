"""What people tried first in Python (python/), and what stopped them, as programs. What each prints is at its end, as
comments. They pass mypy --strict, which finds each mistake of typos.py.

    pytest test_python.py

With the library's Python package on the path, and QINFER_GRAMMAR_LIBRARY where that is not in the package.
"""

import os
import pathlib
import subprocess
import sys

import pytest

import qinfer

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "models" / "tiny-chat"
PROGRAMS = sorted(path for path in HERE.glob("python/*.py") if path.stem != "typos")


def expected(text):
    lines = text.splitlines()
    at = len(lines)
    while lines[at - 1].startswith("# "):
        at -= 1
    assert at < len(lines)
    return [line[2:] for line in lines[at:]]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_it_says(path):
    if path.stem == "structured":
        try:
            qinfer.Grammar.regex(qinfer.Model(MODEL), "a")
        except OSError:
            pytest.skip("machine: libqinfer_grammar was not built")
    environment = {name: value for name, value in os.environ.items() if name != "QINFER_MODEL"}
    done = subprocess.run(
        [sys.executable, path, MODEL], capture_output=True, text=True, env=environment, cwd="/", timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected(path.read_text())


def test_types(tmp_path_factory):
    pytest.importorskip("mypy")
    typos = HERE / "python" / "typos.py"
    flags = ["--strict", "--enable-incomplete-feature=Unpack", f"--cache-dir={tmp_path_factory.getbasetemp() / 'mypy'}", "--scripts-are-modules"]
    done = subprocess.run([sys.executable, "-m", "mypy", *flags, *PROGRAMS, typos], capture_output=True, text=True)
    found = {line.split(": error:")[0] for line in done.stdout.splitlines() if ": error:" in line}
    wrong = [i + 1 for i, line in enumerate(typos.read_text().splitlines()) if line.endswith("# wrong")]
    assert {one.rsplit("/", 1)[-1] for one in found} == {f"typos.py:{line}" for line in wrong}, done.stdout
