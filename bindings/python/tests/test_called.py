"""That a whole run notices what no test calls."""

import subprocess
import sys

import called

MODULE = """
import dataclasses

def f(): return 1
def g(): return 2
def _private(): pass

@dataclasses.dataclass
class Data:
    value: int

class Class:
    def __init__(self): self.made = True
    def method(self): return 3
    @property
    def member(self): return 4
    @classmethod
    def of_class(cls): return cls
    @staticmethod
    def of_none(): return 5
    def _private(self): pass
"""


def test_what_is_not_called_is_listed(tmp_path, monkeypatch):
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "__init__.py").write_text("from .inside import *")
    (tmp_path / "watched" / "inside.py").write_text(MODULE)
    (tmp_path / "watched" / "other.py").write_text("from .inside import g")
    monkeypatch.syspath_prepend(tmp_path)
    import watched
    from watched import inside, other

    watch = called.Called(watched)
    everything = {"f", "g", *(f"Class.{name}" for name in ("__init__", "method", "member", "of_class", "of_none"))}
    assert watch.missing == {f"watched.inside.{name}" for name in everything}
    for _ in range(2):
        assert (watched.f(), other.g(), inside.Class.of_none(), inside.Class.of_class()) == (1, 2, 5, inside.Class)
    assert watch.missing == {f"watched.inside.Class.{name}" for name in ("__init__", "method", "member")}
    made = watched.Class()
    assert made.made and (made.method(), made.member, made.member) == (3, 4, 4)
    assert watch.missing == set()
    assert inside.f is watched.f and not hasattr(inside.f, "__wrapped__")


def test_a_run_that_leaves_something_out_fails(root):
    tests = root / "bindings" / "python" / "tests" / "test_conformance.py"
    options = ["-q", "-p", "no:cacheprovider", "--all-called", "-k", "comes_back"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, tests], capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert done.returncode == 1 and "FAILED: no test calls qinfer._plan.plan" in said, done.stdout
    assert "FAILED: no test calls qinfer._model.Model.tokenize" not in said and "1 passed" in said[-1]
