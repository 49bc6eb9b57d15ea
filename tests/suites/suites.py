"""What the suites share: servers, virtual environments, results and their comparison with the lists of what is expected.

expected-NAME.txt has groups of tests, each below a line that ends with a colon: "must pass:", or "left out: REASON:". A
test is a line with two blanks before it; a # begins a comment.
"""
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
MUST_PASS = "must pass"


class LeftOut(Exception):
    """Why a suite cannot run here."""


@dataclasses.dataclass
class Context:
    root: pathlib.Path
    program: pathlib.Path
    library: pathlib.Path
    work: pathlib.Path

    def model(self, name):
        return self.root / "examples/models" / name

    def folder(self, name):
        """An empty one."""
        path = self.work / "out" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def environment(self, name):
        """The virtual environment of requirements-NAME.txt, made anew where the list has changed."""
        path = self.work / name
        wanted = HERE / f"requirements-{name}.txt"
        if not is_installed(path, wanted):
            print(f"installing {wanted.name} ...", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", path], check=True)
            subprocess.run([path / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                            "--no-deps", "-r", wanted], check=True, stdin=subprocess.DEVNULL)
            note_installed(path, wanted)
        return path / "bin"

    @contextlib.contextmanager
    def serve(self, model, *options):
        """A server at a port of its own; what goes in and out is its URL. It must still be alive at the end."""
        command = [self.program, model, "--port", "0", "--threads", "1", *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            found = re.fullmatch(r"qinfer-server: (http://127\.0\.0\.1:\d+)\n", line)
            if not found:
                raise RuntimeError(f"{self.program} {model}: {line or 'no line'}")
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
        if status != 0:
            raise RuntimeError(f"the server has ended with status {status}: {process.stderr.read()}")


def is_installed(path, wanted):
    note = path / "installed"
    return note.exists() and note.read_text() == checksum(wanted)


def note_installed(path, wanted):
    (path / "installed").write_text(checksum(wanted))


def checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def clean_environment(**more):
    """Of a suite's process: no proxies, keys or hubs of the machine that it runs on."""
    kept = {key: value for key, value in os.environ.items()
            if not key.upper().endswith("_PROXY") and not key.startswith(("OPENAI_", "ANTHROPIC_", "LANG", "HF_"))}
    return {**kept, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


# ---- Results: {test: None, or why it has not passed}


def junit_results(path):
    """Of pytest's XML."""
    results = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        test = f"{case.get('classname').rsplit('.', 1)[-1]}::{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        results[test] = f"{bad[0].tag}: {(bad[0].get('message') or '').splitlines()[0:1]}" if bad else None
    return results


@dataclasses.dataclass
class Compared:
    n_passed: int = 0
    n_left_out: int = 0
    n_wrong: int = 0
    n_better: int = 0

    def summary(self):
        better = f", {self.n_better} of those left out pass" if self.n_better else ""
        return f"{self.n_passed} pass as they must, {self.n_left_out} left out{better}, {self.n_wrong} wrong"


def read_expected(name):
    """{test: "must pass" or why it is left out}"""
    expected, group = {}, None
    for number, line in enumerate((HERE / f"expected-{name}.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  "):
            if group is None or line.strip() in expected:
                raise ValueError(f"expected-{name}.txt:{number}: a test without a group, or twice")
            expected[line.strip()] = group
        elif line == MUST_PASS + ":" or (line.startswith("left out: ") and line.endswith(":")):
            group = line.removeprefix("left out: ").removesuffix(":")
        else:
            raise ValueError(f"expected-{name}.txt:{number}: neither a group nor a test")
    return expected


def compare(name, results):
    expected = read_expected(name)
    compared = Compared()

    def wrong(test, why):
        compared.n_wrong += 1
        print(f"  WRONG  {test}: {why}")

    for test, problem in results.items():
        group = expected.get(test)
        if group is None:
            if problem is None:
                print(f"  new    {test}: passes, and no list names it")
                compared.n_better += 1
            else:
                wrong(test, f"no list names it, and {problem}")
        elif group == MUST_PASS:
            if problem is None:
                compared.n_passed += 1
            else:
                wrong(test, problem)
        else:
            compared.n_left_out += 1
            if problem is None:
                print(f"  better {test}: passes, and is left out: {group}")
                compared.n_better += 1
    for test, group in expected.items():
        if test not in results:
            wrong(test, "it did not run") if group == MUST_PASS else print(f"  gone   {test}: it did not run")
    return compared
