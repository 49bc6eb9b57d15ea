import json
import pathlib

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
def model(cases):
    return qinfer.Model(ROOT / cases["model"], qinfer.Runtime(threads=1))


@pytest.fixture(scope="session")
def chat_model(cases):
    return qinfer.Model(ROOT / cases["chat_model"], qinfer.Runtime(threads=1))
