"""Conversations that are kept: they go on after a restart, after kill -9 and after a drain, for those whose they are."""

import signal
import subprocess

from clients import until

STORY = " ".join(["Once upon a time there was a little dog who liked to play with a red ball in the park."] * 6)


def ask(server, prompt=STORY, **more):
    body = dict(prompt=prompt, max_tokens=40, temperature=0.7, seed=1, **more)
    status, answer = server.post("/v1/completions", **body)
    assert status == 200, answer
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def until_written(server, files):
    for _ in range(1000):
        if server.metric("qinfer_kept_files_written_total") >= files:
            return
    raise AssertionError("nothing was kept")


def test_a_conversation_goes_on_after_kill_9(serve, tmp_path):
    first = serve("--keep", str(tmp_path / "kept"))
    text, cached = ask(first)
    assert cached == 0
    until_written(first, 4)
    first.process.send_signal(signal.SIGKILL)
    assert first.process.wait(20) == -signal.SIGKILL
    second = serve("--keep", str(tmp_path / "kept"))
    again, cached = ask(second)
    assert again == text and cached >= 96
    plain = serve()
    prompt = STORY + text + " And then"
    assert ask(second, prompt)[0] == ask(plain, prompt)[0]
    assert second.metric("qinfer_kept_bytes") > 0
    assert second.metric("qinfer_kept_failures_total") == 0


def test_what_is_kept_takes_no_room_from_others(serve, tmp_path):
    server = serve("--keep", str(tmp_path / "kept"), "--cache-bytes", "1MiB")
    ask(server)
    until_written(server, 4)
    until(lambda: server.metric("qinfer_kv_cache_usage_perc") == 0)


def test_what_is_drawn_when_the_server_ends_is_kept(serve, tmp_path):
    first = serve("--keep", str(tmp_path / "kept"), "--drain-s", "0")
    connection = first.connect()
    body = '{"prompt": "%s", "max_tokens": 300, "seed": 1, "stream": true, "logit_bias": {"2": -100}}' % STORY
    connection.request("POST", "/v1/completions", body)
    assert connection.getresponse().readline().startswith(b"data:")
    assert first.end() == 0
    second = serve("--keep", str(tmp_path / "kept"))
    assert ask(second)[1] >= 96


def test_two_servers_do_not_share_a_folder(serve, request, tmp_path):
    serve("--keep", str(tmp_path / "kept"))
    model = f"{request.config.getoption('--models')}/tiny-stories"
    program = request.config.getoption("--server")
    command = [program, model, "--port", "0", "--threads", "1", "--keep", str(tmp_path / "kept")]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=20)
    assert ended.returncode == 1
    assert "in use" in ended.stderr and str(tmp_path / "kept") in ended.stderr


def test_each_key_finds_its_own(serve, tmp_path):
    (tmp_path / "keys").write_text("one\ntwo\n")

    def cached(server, key):
        body = dict(prompt=STORY, max_tokens=2)
        status, _, text = server.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})
        assert status == 200
        return text

    options = ("--keep", str(tmp_path / "kept"), "--keys", str(tmp_path / "keys"))
    first = serve(*options)
    cached(first, "one")
    assert first.end() == 0
    second = serve(*options)
    assert b'"cached_tokens":0' in cached(second, "two")
    assert second.end() == 0
    third = serve(*options)
    assert b'"cached_tokens":0' not in cached(third, "one")
