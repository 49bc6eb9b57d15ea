"""Programs as a cookbook of OpenAI's has them (cookbook/), with one line changed: the import of the package. What each
prints is at its end, as comments.

    pytest test_cookbook.py

With the library's Python package on the path. Where the package openai is there, and QINFER_SERVER names a qinfer-server,
the programs also run as they are, with that server in the service's place: they are right for the package, and print the
same.
"""

import contextlib
import importlib.util
import inspect
import io
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "models" / "tiny-chat"
PROGRAMS = sorted(HERE.glob("cookbook/*.py"))
IMPORT = re.compile(r"^(from|import) openai\b", re.M)
NEEDS_GRAMMARS = {
    "json_mode", "json_schema", "json_list", "tool_choice", "parse", "parse_tools", "responses_json_schema",
    "responses_parse",
}  # fmt: skip


def switched(text):
    """The program with its import of qinfer."""
    text, changed = IMPORT.subn(lambda found: f"{found[1]} qinfer.openai", text)
    text = re.sub(r"^import qinfer\.openai$", "import qinfer.openai as openai", text, flags=re.M)
    assert changed == 1
    return text


def expected(text):
    lines = text.splitlines()
    at = len(lines)
    while lines[at - 1].startswith("# "):
        at -= 1
    assert at < len(lines)
    return [line[2:] for line in lines[at:]]


def printed(text, name):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - a program of this folder
    return out.getvalue().splitlines()


def skip_what_is_not_there(path, text):
    if "pydantic" in text and importlib.util.find_spec("pydantic") is None:
        pytest.skip("machine: pydantic is not there")
    if path.stem in NEEDS_GRAMMARS and importlib.util.find_spec("qinfer") is not None:
        import qinfer

        try:
            qinfer.Grammar.regex(qinfer.Model(MODEL), "a")
        except OSError:
            pytest.skip("machine: libqinfer_grammar was not built")


def test_there_are_enough_of_them():
    assert len(PROGRAMS) >= 30
    kinds = {"chat.completions.create", "stream=True", "tools", "response_format", "embeddings", "AsyncOpenAI", "responses"}
    for kind in kinds:
        assert sum(kind in path.read_text() for path in PROGRAMS) >= 3, kind


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_with_one_line_changed(path, monkeypatch):
    pytest.importorskip("qinfer")
    text = path.read_text()
    skip_what_is_not_there(path, text)
    monkeypatch.setenv("QINFER_MODEL", str(MODEL))
    assert printed(switched(text), str(path)) == expected(text)


def test_types_of_the_programs(tmp_path, tmp_path_factory):
    """mypy --strict finds nothing in any of them, and a misspelled field in one."""
    pytest.importorskip("mypy")
    pytest.importorskip("qinfer")
    with_pydantic = importlib.util.find_spec("pydantic") is not None
    texts = {path.name: path.read_text() for path in PROGRAMS}
    for name, text in texts.items():
        if with_pydantic or "pydantic" not in text:
            (tmp_path / name).write_text(switched(text))
    (tmp_path / "wrong.py").write_text(switched(texts["hello.py"]).replace("temperature=0", "temprature=0"))
    flags = ["--strict", "--enable-incomplete-feature=Unpack", f"--cache-dir={tmp_path_factory.getbasetemp() / 'mypy'}", "--scripts-are-modules"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, *sorted(map(str, tmp_path.glob("*.py")))], capture_output=True, text=True
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and "wrong.py" in errors[0] and "create" in errors[0], done.stdout


def test_types_of_the_package(tmp_path):
    """mypy --strict finds nothing in the programs as they are."""
    for package in ("mypy", "openai", "pydantic"):
        pytest.importorskip(package)
    flags = ["--strict", f"--cache-dir={tmp_path}", "--scripts-are-modules"]
    done = subprocess.run([sys.executable, "-m", "mypy", *flags, *PROGRAMS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_fields_are_those_of_the_package():
    """Each parameter of the package may be None, and one that is wrong is named, whether it is honoured or not."""
    openai = pytest.importorskip("openai")
    pytest.importorskip("qinfer")
    from openai.resources.responses import Responses

    from qinfer import UnsupportedError
    from qinfer.openai import OpenAI, OpenAIError

    client, chats = OpenAI(model=MODEL), openai.resources.chat.completions.Completions
    messages = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50}
    passed_over = {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier"}
    of_chats, of_responses = {"metadata"}, {"user", "safety_identifier", "max_tool_calls"}
    asked = {"input": "x", "max_output_tokens": 2}
    for ours, theirs, needed, more in (
        (client.chat.completions.create, chats.create, messages, of_chats),
        (client.chat.completions.parse, chats.parse, messages, of_chats),
        (client.completions.create, openai.resources.Completions.create, {"prompt": "x", "max_tokens": 2}, set()),
        (client.embeddings.create, openai.resources.Embeddings.create, {"input": "x"}, set()),
        (client.responses.create, Responses.create, asked, of_responses),
    ):
        inspect.signature(theirs).bind(None, model="m", **needed)
        for name in set(inspect.signature(theirs).parameters) - {"self", "model", *needed}:
            ours(**needed, **{name: None})
            if name in passed_over | more or name == "extra_body" and "messages" in needed:  # variables of the template
                ours(**needed, **{name: {"a": 1}})
                continue
            with pytest.raises((OpenAIError, TypeError), match='"a" is not a field' if name == "extra_body" else name):
                ours(**needed, **{name: {"a": 1}})
    for name in set(inspect.signature(openai.OpenAI.__init__).parameters) - {"self"}:
        with contextlib.suppress(UnsupportedError):
            OpenAI(**{name: 1})


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_is_right_for_the_package(path, service, monkeypatch):
    text = path.read_text()
    skip_what_is_not_there(path, text)
    monkeypatch.setenv("OPENAI_BASE_URL", service)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert printed(text, str(path)) == expected(text)
