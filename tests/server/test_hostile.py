"""Requests that no client should send, by raw sockets: of each the answers are known, and whether the connection stays.
After each the server is healthy, all blocks of the cache are free, and its memory has a bound."""

import json
import re

import pytest

import hostile
import hostile_heads
from clients import is_idle, until, Wire

# The models are a few megabytes. What a body of 32 MiB is made into while it is read may be thirty times as large; of
# that nothing stays but what the heap's pieces have between them.
MOST_RESTING, MOST_EVER = 128 << 20, 1 << 30


def memory(server, what="VmRSS"):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(rf"{what}:\s+(\d+) kB", file.read())[1]) << 10


def check_unharmed(server):
    assert server.request("GET", "/health")[0] == 200
    until(lambda: is_idle(server))
    until(lambda: server.metric("qinfer_kv_cache_usage_perc") == 0)
    until(lambda: server.metric("qinfer_body_bytes") == 0)
    until(lambda: memory(server) < MOST_RESTING)
    assert memory(server, "VmHWM") < MOST_EVER


@pytest.mark.parametrize("name", hostile_heads.PROBES)
def test_what_is_framed_as_it_should_not_be(server, name):
    probe = hostile_heads.PROBES[name]
    with Wire(server) as wire:
        sent = wire.send(probe.data) and all(wire.send(probe.more) for _ in range(probe.times))
        if probe.is_half and sent:
            wire.connection.shutdown(1)
        answers = [wire.answer() for _ in probe.statuses]
        assert [answer and answer[0] for answer in answers] == probe.statuses
        if probe.stays:
            assert wire.ask("GET", "/health")[0] == 200
        else:
            assert not answers or probe.is_half or b"\r\nConnection: close\r\n" in answers[-1][1]
            assert wire.has_ended()
    check_unharmed(server)


@pytest.mark.parametrize("route, body, fields", hostile.FIELDS, ids=[f"{route} {len(body)}" for route, body, _ in hostile.FIELDS])
def test_absurd_numbers(server, chat, route, body, fields):
    asked = chat if "messages" in body or route == "/v1/responses" else server
    wrong = []
    with Wire(asked) as wire:
        for field, takes in fields.items():
            others = hostile.NO_JSON_NUMBERS + (hostile.NO_NUMBERS if takes is not hostile.never else [])
            for text in others + hostile.NUMBERS:
                expected = 200 if text not in hostile.NO_JSON_NUMBERS and takes(text) else 400
                status, _, answer = wire.ask("POST", route, hostile.with_number(body, field, text))
                if status != expected:
                    wrong.append((field, text[:30], status, answer[:300]))
    assert not wrong, "\n".join(map(str, wrong))
    check_unharmed(asked)


@pytest.mark.parametrize("name", hostile.OUT_OF_PROPORTION)
def test_requests_out_of_all_proportion(server, chat, name):
    make, expected = hostile.OUT_OF_PROPORTION[name]
    route, body = make()
    asked = server if route in ["/v1/completions", "/tokenize", "/detokenize"] else chat
    with Wire(asked) as wire:
        status, _, answer = wire.ask("POST", route, body if isinstance(body, bytes) else json.dumps(body).encode())
        assert status in expected and len(answer) < 64 << 20, answer[:300]
        assert status == 200 or json.loads(answer)["error"]["message"] and len(answer) < 1000
        assert wire.ask("GET", "/health")[0] == 200
    check_unharmed(asked)
