"""The page in a browser, with qinfer-server itself: a chat, a stop, errors, keys, what is kept, what it looks like."""

import json
import os
import re
import time

import pytest

LONG = "Tell me a long story about a small boat."


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def chat(serve, browser):
    server = serve(model="tiny-chat")
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.until("model.id")
    return server


def endless(browser, more=""):
    """Answers to come do not end by themselves: no token that ends them is drawn."""
    browser.run(f"""requestOf = ((original) => (asked) =>
        ({{...original(asked), logit_bias: {{1271: -100, 1273: -100}}, {more}}}))(requestOf); 0""")


def test_a_chat_of_two_turns_that_a_reload_keeps(chat, browser, say):
    assert browser.text("#model") == "tiny-chat" and "1,024 tokens" in browser.text("#about")
    browser.run("chat.settings = {temperature: '0', max_completion_tokens: '40'}")
    say("What is your name?")
    first = browser.text(".text")
    assert first and first == chat.post("/v1/chat/completions", messages=[{"role": "user", "content": "What is your name?"}],
                                        temperature=0, max_tokens=40)[1]["choices"][0]["message"]["content"].strip()
    say("What is the capital of France?")
    assert "Paris" in browser.texts(".text")[1]
    assert re.fullmatch(r"first after [\d.]+ m?s", browser.texts(".actions span")[0])  # all came within a moment
    assert browser.text("#context").endswith("of 1,024 tokens") and not browser.text("#context").startswith("Nearly")
    before = browser.texts(".message")
    assert len(before) == 4 and browser.texts("#list .name") == ["What is your name?"]
    browser.reload()
    assert browser.texts(".message") == before and browser.text("#title") == "What is your name?"
    assert browser.run("chat.settings.temperature") == "0"
    assert browser.run("Object.keys(localStorage).every((key) => key.startsWith('qinfer.chat.')) && sessionStorage.length") == 0


def test_a_stop_in_the_middle_ends_the_request_at_the_server(serve, browser, say):
    server = serve("--max-running", "1", "--max-waiting", "1024", model="tiny-chat")
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.until("model.id")
    endless(browser, "n: 100")  # one after the other, which takes a minute
    for stop in (lambda: browser.key("Escape"), lambda: browser.click("#send")):
        browser.run("show(newChat())")
        say(LONG, waits=False)
        browser.until("$('log').querySelector('.text').innerText.length > 10")
        assert browser.run("$('send').title") == "Stop"
        assert server.metric("qinfer_num_requests_waiting") > 0
        stop()
        browser.until("!jobs.size")
        until(lambda: server.metric("qinfer_num_requests_waiting") == 0 == server.metric("qinfer_num_requests_running"), 5)
        until(lambda: server.metric("qinfer_kv_cache_usage_perc") == 0, 5)
        assert len(browser.text(".text")) > 10 and browser.text(".note") == "Stopped."
        assert browser.run("$('send').title") == "Send"
    assert server.metric("qinfer_generation_rows_total") < 50_000  # of 200,000


def test_a_context_that_is_full_says_so(chat, browser, say):
    endless(browser)
    say(LONG)
    assert browser.text("#context").startswith("Nearly full: 1,02")
    assert re.fullmatch(r"[\d.]+ tokens/s · first after [\d.]+ m?s", browser.texts(".actions span")[0])
    say("x " * 1100)
    assert "1024 tokens" in browser.text(".problem")  # what the server said
    assert browser.run("jobs.size") == 0


def test_a_model_without_a_template_is_told(serve, browser, say):
    server = serve(model="tiny-stories")
    said = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}])[1]["error"]["message"]
    browser.open(f"http://127.0.0.1:{server.port}/")
    say("Hello")
    assert browser.text(".problem span") == said and "template" in said


def test_a_key_is_asked_for_and_kept_in_the_session(serve, browser, say, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys), model="tiny-chat")
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.until("!$('key-form').hidden")
    say("What is your name?")
    assert "API key" in browser.text(".problem")
    for key in ("wrong", "secret"):
        browser.run("$('key').focus()")
        browser.type(key)
        browser.key("Enter")
        browser.until("$('key-form').hidden === (key === 'secret') && !$('key').value && !jobs.size")
    browser.until("document.querySelectorAll('.message').length === 2 && $('log').querySelector('.text').innerText")
    assert browser.texts(".problem") == []
    assert browser.run("sessionStorage['qinfer.key']") == "secret"
    assert "secret" not in browser.run("JSON.stringify({...localStorage})")
    browser.reload()
    browser.until("model.id")
    assert browser.run("$('key-form').hidden")


def test_a_server_that_is_gone(serve, browser, say):
    server = serve(model="tiny-chat")
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.until("model.id")
    assert server.end() == 0
    say("Hello")
    assert browser.text(".problem span") == "The server cannot be reached."


def test_edit_again_new_delete_export(chat, browser, say):
    browser.run("chat.settings = {max_completion_tokens: '8', seed: '5'}")
    say("One")
    say("Two")
    browser.run("document.querySelectorAll('.user button')[0].click()")
    assert browser.run("document.activeElement.id + $('input').value") == "inputOne"
    say(" more")
    assert browser.texts(".bubble") == ["One more"] and browser.text("#title") == "One more"
    assert browser.run("$('input').value + $('notices').innerText") == ""
    browser.click(".message:last-child .again")
    browser.until("!jobs.size && document.querySelectorAll('.message').length === 2")
    browser.click("#new")
    say("Three")
    assert browser.texts("#list .name") == ["Three", "One more"]
    folder = browser.keep_downloads()
    browser.click("#export")
    until(lambda: os.listdir(folder) == ["Three.json"])
    until(lambda: os.path.getsize(f"{folder}/Three.json"))
    exported = json.load(open(f"{folder}/Three.json"))
    assert exported["model"] == "tiny-chat" and exported["messages"][0] == {"role": "user", "content": "Three"}
    browser.run("window.confirm = () => true")
    browser.click("#list .open .delete")
    assert browser.texts("#list .name") == ["One more"] and browser.texts(".message") == []
    browser.click("#list .name")
    assert browser.texts(".bubble") == ["One more"]


def test_an_answer_goes_on_while_another_conversation_is_shown(chat, browser, say):
    endless(browser)
    say(LONG, waits=False)
    browser.until("jobs.size === 1")
    browser.click("#new")
    assert browser.run("$('send').title") == "Send"
    browser.until("!jobs.size")
    assert browser.texts(".message") == []
    browser.click("#list .name")
    assert len(browser.text(".text")) > 100


def test_storage_that_is_full_or_closed_is_told(chat, browser, say):
    browser.run("chat.settings = {max_completion_tokens: '4'}")
    browser.run("localStorage.setItem('filler', 'x'.repeat(5 * 1024 * 1024 - 100))")
    say("Hello " * 40)
    assert "storage is full" in browser.text("#notices") and len(browser.texts(".message")) == 2
    browser.run("localStorage.clear(); Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }}); 0")
    say("Again")
    assert "stores nothing" in browser.text("#notices") and len(browser.texts(".message")) == 4
