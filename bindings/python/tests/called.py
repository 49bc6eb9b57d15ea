"""Which functions, methods and properties of a package were called: conftest.py fails a whole run that leaves some out.

Each is replaced by a function that notes the first call and puts back what was there, so that later calls cost nothing.
"""

import functools
import importlib
import inspect
import pkgutil

SPECIAL = {"__init__", "__len__", "__next__", "__enter__", "__exit__", "__getattr__", "__reduce__"}


def modules_of(package):
    """Its modules, without those that run when they are imported."""
    inside = f"{package.__name__}."
    names = [one.name for one in pkgutil.walk_packages(package.__path__, inside) if not one.name.endswith(".__main__")]
    # What is in qinfer.ray is tested on a cluster, by ./dev ray.
    return [package, *filter(None, (imported(name) for name in names if not name.startswith(f"{inside}ray.")))]


def imported(name):
    """The module; None where it is for a package that is not there."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as failure:
        if failure.name is None or failure.name.split(".")[0] == name.split(".")[0]:
            raise
        return None


def is_public(name):
    return not name.startswith("_") or name in SPECIAL


class Called:
    """What is not called yet, as names."""

    def __init__(self, package):
        self.missing = set()
        self.modules = modules_of(package)
        self.files = {module.__file__ for module in self.modules}
        for module in self.modules:
            for name, value in list(vars(module).items()):
                if not is_public(name) or getattr(value, "__module__", None) != module.__name__:
                    continue
                if inspect.isclass(value) and not getattr(value, "_is_protocol", False):
                    self._watch_class(value)
                elif inspect.isfunction(value):
                    self._watch_function(name, value)

    def _is_ours(self, function):
        """Not one that a decorator such as dataclass has made."""
        return inspect.isfunction(function) and inspect.unwrap(function).__code__.co_filename in self.files

    def _noting(self, function, name, put_back):
        @functools.wraps(function)
        def note(*arguments, **options):
            self.missing.discard(name)
            put_back()
            return function(*arguments, **options)

        self.missing.add(name)
        return note

    def _watch_function(self, name, function):
        if not self._is_ours(function):
            return
        holders = [module for module in self.modules if vars(module).get(name) is function]

        def put_back():
            for module in holders:
                setattr(module, name, function)

        noting = self._noting(function, f"{function.__module__}.{name}", put_back)
        for module in holders:
            setattr(module, name, noting)

    def _watch_class(self, kind):
        for name, value in list(vars(kind).items()):
            if not is_public(name):
                continue
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not self._is_ours(function):
                continue
            put_back = functools.partial(setattr, kind, name, value)
            noting = self._noting(function, f"{kind.__module__}.{kind.__name__}.{name}", put_back)
            if isinstance(value, property):
                noting = property(noting, value.fset, value.fdel, value.__doc__)
            elif isinstance(value, (classmethod, staticmethod)):
                noting = type(value)(noting)
            setattr(kind, name, noting)
