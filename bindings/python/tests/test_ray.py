"""qinfer.ray where Ray is not installed; with it, tests/ray has the tests."""

import importlib
import sys

import pytest

import qinfer.ray


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not there
    for name in qinfer.ray.__all__:
        with pytest.raises(ImportError, match=rf"{name} needs Ray.*pip install qinfer\[ray\]"):
            getattr(qinfer.ray, name)
    with pytest.raises(AttributeError, match="no attribute 'sun'"):
        importlib.import_module("qinfer.ray").sun
    assert set(qinfer.ray.__all__) <= set(dir(qinfer.ray))
