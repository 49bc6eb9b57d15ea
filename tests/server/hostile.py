"""Bodies that no client should send, for routes of any dialect."""

import copy

LONG_TEXT = "\N{GRINNING FACE}" * 40
VALUES = [None, True, 0, -1, 1.5, 10**30, "", "x", LONG_TEXT, [], [[]], [None], {},
          {"type": "x"}, {"type": 1}]

NO_JSON = [
    b"", b" ", b"null", b"5", b'"x"', b"[1]", b"{", b"{}{}", b'{"a":}', b'{"model": "\xff"}', b'{"model": "\\ud800"}',
    b'{"model": 1e999}', b'{"a": 1, "a": 2}', b"\x00", b'{"messages": ' + b"[" * 100000, b'{"messages":' * 100000,
    b'{"input": ' + b"[" * 70 + b"]" * 70 + b"}", b'{"messages": ' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"x": [' + b"1," * (1 << 20) + b"1]}",
]


def paths_of(value, path=()):
    """The places in a JSON value, from the outside in."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, child in children:
        yield from paths_of(child, (*path, key))


def changed(body):
    """The body with each of its values replaced by others, left out, and with a member that nobody knows."""
    for path in paths_of(body):
        for value in [*VALUES, ...]:
            other = copy.deepcopy(body)
            at = other
            for key in path[:-1]:
                at = at[key]
            if value is ...:
                del at[path[-1]]
            else:
                at[path[-1]] = value
            yield path, value, other
