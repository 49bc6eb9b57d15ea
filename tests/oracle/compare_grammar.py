"""libqinfer_grammar against the jsonschema package: the two scripts of tests/fixtures, as they say that they are run.

check_json_schema.py tries the JSON Schema test suite, which the source package of jsonschema carries, and
real_schemas.json; check_random_schemas.py as many random schemas as there is time for, in turns of 200.
"""
import ast
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tarfile

from oracle import FIXTURES, LeftOut

TURN = 200  # schemas of one run of check_random_schemas.py


def library():
    path = os.environ.get("QINFER_GRAMMAR_LIBRARY")
    if not path or not pathlib.Path(path).exists():
        raise LeftOut("QINFER_GRAMMAR_LIBRARY does not name a library")
    return path


def suite():
    """The folder of the test suite, from the source package of the version that is installed; fetched once."""
    version = importlib.metadata.version("jsonschema")
    folder = pathlib.Path(sys.prefix) / "jsonschema-source"
    found = folder / f"jsonschema-{version}" / "json" / "tests" / "draft2020-12"
    if not found.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--no-binary", "jsonschema", "--dest", str(folder), f"jsonschema=={version}"]
        if subprocess.run(command).returncode:
            return None
        with tarfile.open(folder / f"jsonschema-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return found


def run_script(comparison, name, *arguments):
    """Counts of the script by their names; what it calls wrong is a difference, and so is another failure."""
    command = [sys.executable, str(FIXTURES / name), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    wrong = [line for line in lines if line.startswith("WRONG")]
    for line in wrong:
        comparison.check(False, name, lambda line=line: line[:1000])
    if run.returncode and not wrong:
        comparison.check(False, name, lambda: f"status {run.returncode}: {(run.stdout + run.stderr)[-1000:]}")
    return lines


def check_suite(comparison, path, documents):
    """check_json_schema.py over a folder or a file."""
    lines = run_script(comparison, "check_json_schema.py", path, documents)
    counts = dict(reversed(line.split(maxsplit=1)) for line in lines if re.fullmatch(r" *\d+ .*", line))
    comparison.compared += sum(int(counts.get(f"{kind}, {done}", 0)) for kind, done in
                               (("valid", "accepted"), ("valid", "refused"), ("invalid", "refused")))
    print(f"grammar: {documents.name}: {counts.get('schemas')} schemas, {counts.get('refused', 0)} of them refused; of the "
          f"others' documents {counts.get('valid, refused', 0)} valid ones refused", flush=True)


def check_random(comparison, path, seed):
    lines = run_script(comparison, "check_random_schemas.py", path, "--schemas", TURN, "--seed", seed)
    counts = ast.literal_eval(lines[-1]) if lines and lines[-1].startswith("{") else {}
    comparison.compared += counts.get("valid", 0)


def compare(comparison):
    path = library()
    if comparison.only_case is None:
        check_suite(comparison, path, FIXTURES / "real_schemas.json")
        found = suite()
        if found is None:
            comparison.left_out("the JSON Schema test suite: pip cannot fetch the source package of jsonschema")
        else:
            check_suite(comparison, path, found)
    for _, rng in comparison.cases():
        check_random(comparison, path, rng.getrandbits(32))
