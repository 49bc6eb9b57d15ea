import json
import pathlib

import called
import pytest

import qinfer

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def cases():
    return json.loads((ROOT / "bindings" / "conformance" / "cases.json").read_text())


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def path(cases):
    return ROOT / cases["model"]


@pytest.fixture(scope="session")
def chat_path(cases):
    return ROOT / cases["chat_model"]


@pytest.fixture(scope="session")
def model(cases):
    return qinfer.Model(ROOT / cases["model"], qinfer.Runtime(threads=1))


@pytest.fixture(scope="session")
def chat_model(cases):
    return qinfer.Model(ROOT / cases["chat_model"], qinfer.Runtime(threads=1))


def with_thoughts(name, directory):
    """One of the examples' models with a template that asks for reasoning."""
    for file in (ROOT / "examples" / "models" / name).iterdir():
        (directory / file.name).symlink_to(file)
    (directory / "chat_template.jinja").unlink(missing_ok=True)
    (directory / "chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    return directory


@pytest.fixture(scope="session")
def thinker_path(tmp_path_factory):
    return with_thoughts("tiny-chat", tmp_path_factory.mktemp("thinker"))


@pytest.fixture(scope="session")
def thinker(thinker_path):
    return qinfer.Model(thinker_path)


def pytest_addoption(parser):
    parser.addoption("--all-called", action="store_true", help="fail if no test calls a public function of the package")


def pytest_configure(config):
    config.called = called.Called(qinfer) if config.getoption("--all-called") else None


def pytest_sessionfinish(session, exitstatus):
    watch = session.config.called
    if watch is not None and watch.missing and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if config.called is not None:
        for name in sorted(config.called.missing):
            terminalreporter.write_line(f"FAILED: no test calls {name}")
