"""The page in a browser, with a stub server: streams that are cut anywhere, wrong or hostile, and refusals."""

import json
import re
import threading
import time

import pytest
from stub import Reset, event, said

TEXT = "Zwölf Boxkämpfer 🚣‍♀️ jagen **Viktor** über den `Deich`: 日本語のテキスト.\n\n- eins\n- zwei\n"
SHOWN = "Zwölf Boxkämpfer 🚣‍♀️ jagen Viktor über den Deich: 日本語のテキスト.\neins\nzwei"


def shown(browser, selector=".text"):
    return "\n".join(line for line in browser.text(selector).split("\n") if line)


def test_an_answer_that_is_split_at_every_byte(stub, browser, say):
    events = (": a comment\r\n\r\n".encode() + event({"role": "assistant", "content": ""}).replace(b"\n", b"\r\n")
              + b"event: x\nid: 5\nretry: 3\n" + event({"content": TEXT[:30]}).replace(b"\n", b"\r")
              + said(*TEXT[30:]).replace(b"\n", b"\r\n"))
    server = stub([bytes([byte]) for byte in events], [events], [events[:777], events[777:]])
    browser.open(server.address)
    for _ in range(3):
        browser.run("show(newChat())")
        say("Hello")
        assert shown(browser) == SHOWN and browser.texts(".problem") == []
        assert browser.run("chat.messages[1].content") == TEXT


def test_data_of_several_lines_and_an_end_without_an_empty_line(stub, browser, say):
    server = stub([b'data: {"choices": [{"delta":\ndata: {"content": "Hi"}}]}\n\ndata:[DONE]'])
    browser.open(server.address)
    say("Hello")
    assert shown(browser) == "Hi" and browser.texts(".problem") == []


def test_markup_is_text(stub, browser, say):
    text = ("<script>window.isHit = 1</script><img src=x onerror='isHit = 1'> [a](javascript:isHit=1) [b](data:text/html,x)\n"
            "[c](https://example.org/\"onclick=\"isHit=1) <https://example.org/?a=<b>\n\n"
            "```<img src=x>\n</code></pre><script>isHit = 1</script>\n```\n\n| <b>x</b> |\n|---|\n| <svg onload=isHit=1> |")
    server = stub([event({"reasoning_content": "<img src=x onerror=isHit=1>"}), said(*text)])
    browser.open(server.address)
    say("<img src=x onerror=isHit=1>")
    time.sleep(0.1)
    assert not browser.run("window.isHit") and "<script>window.isHit = 1</script><img" in browser.text(".text")
    assert browser.run("$('log').querySelectorAll('script, img, svg, b, [onclick], [onerror]').length") == 0
    links = browser.run("[...$('log').querySelectorAll('a')].map((a) => [new URL(a.href).protocol, a.rel])")
    assert links and all(link == ["https:", "noopener noreferrer"] for link in links)


def test_huge_lines_and_many_marks_do_not_stop_the_page(stub, browser, say):
    huge = ["x" * 3_000_000, "**a " * 30_000, "`" * 20_000 + " `a" * 20_000, "[" * 50_000 + "(" * 50_000, "> " * 5_000 + "- " * 5_000,
            "|" * 50_000 + "\n|-|\n", "*_" * 30_000, "\\" * 50_000, "[a](https://" + "(" * 30_000, "- a\n" * 20_000, "\n1. a\n\n  " * 5_000]
    server = stub(*[[event({"content": piece}) for piece in (text[:1000], text[1000:])] + [said(" end")] for text in huge])
    browser.open(server.address)
    for text in huge:
        browser.run("show(newChat())")
        begun = time.monotonic()
        say("Hello")
        assert time.monotonic() - begun < 20, text[:10]
        assert browser.texts(".problem") == [] and len(browser.run("chat.messages[1].content")) == len(text) + 4


@pytest.mark.parametrize("wrong", [b"data: {\"choices\": [\n\n", b"data: <html>\n\n"])
def test_an_event_that_is_not_json(stub, browser, say, wrong):
    server = stub([event({"content": "so far"}), wrong, said(" and on")])
    browser.open(server.address)
    say("Hello")
    assert shown(browser) == "so far" and "not JSON" in browser.text(".problem")


def test_an_error_in_the_stream(stub, browser, say):
    server = stub([event({"content": "so far"}), b'data: {"error": {"message": "The cache is full", "type": "x"}}\n\ndata: [DONE]\n\n'])
    browser.open(server.address)
    say("Hello")
    assert shown(browser) == "so far" and browser.text(".problem span") == "The cache is full"


def test_a_connection_that_is_lost_keeps_what_has_come(stub, browser, say):
    def reset():
        yield event({"content": "so far"})
        time.sleep(0.3)
        raise Reset

    server = stub(reset, [event({"content": "so far"})], [said("whole")])
    browser.open(server.address)
    browser.until("model.id")
    for turn in range(2):
        say("Hello") if turn == 0 else browser.click(".problem .again")
        browser.until("!jobs.size && $('log').querySelector('.problem')")
        assert shown(browser) == "so far" and "connection was lost" in browser.text(".problem")
    browser.click(".problem .again")
    browser.until("!jobs.size && !$('log').querySelector('.problem')")
    assert shown(browser) == "whole" and len(browser.texts(".message")) == 2
    assert server.asked[2] == server.asked[0]  # without the answer that failed


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_says_when_to_come_again(stub, browser, say, status):
    body = json.dumps({"error": {"message": "Too many requests are waiting"}}).encode()
    server = stub((status, {"Retry-After": 7}, body), (502, {"Content-Type": "text/html"}, b"<h1>Bad gateway"), [said("yes")])
    browser.open(server.address)
    say("Hello")
    assert browser.text(".problem span") == "Too many requests are waiting. The server says to try again in 7 s."
    browser.click(".problem .again")
    browser.until("!jobs.size && $('log').innerText.includes('502')")
    say("And more")
    assert server.asked[-1]["messages"] == [{"role": "user", "content": "Hello\n\nAnd more"}]  # roles in turns
    assert shown(browser, ".message:last-child .text") == "yes"


def test_a_key_that_the_stub_asks_for(stub, browser, say):
    server = stub([said("yes")], key="k")
    browser.open(server.address)
    say("Hello")
    assert browser.text(".problem span") == "No or a wrong API key was given"
    browser.run("$('key').focus()")
    browser.type("k")
    browser.key("Enter")
    browser.until("!jobs.size && $('log').innerText.includes('yes')")


def test_a_stop_closes_the_connection(stub, browser, say):
    def forever():
        while True:
            yield event({"content": "on and "})
            time.sleep(0.02)

    server = stub(forever)
    browser.open(server.address)
    say("Hello", waits=False)
    browser.until("$('log').innerText.length > 300")
    browser.key("Escape")
    assert server.left.wait(5)
    browser.until("!jobs.size")
    assert browser.text(".note") == "Stopped." and "≈" in browser.text(".message:last-child .actions span")


def test_a_reload_in_the_middle_keeps_what_has_come(stub, browser, say):
    go_on = threading.Event()

    def slow():
        yield event({"content": "so far"})
        go_on.wait(10)

    server = stub(slow)
    browser.open(server.address)
    say("Hello", waits=False)
    browser.until("$('log').innerText.includes('so far')")
    browser.reload()
    go_on.set()
    assert shown(browser) == "so far" and browser.run("$('send').title") == "Send"
    # Chromium ends the request before the page learns that it is closed.
    assert re.match("The (connection was lost|page was closed) before", browser.text(".problem"))


def test_reasoning_and_calls_of_tools(stub, browser, say):
    def answer():
        yield event({"reasoning": "Let me "})
        time.sleep(0.5)
        yield event({"reasoning_content": "see."})
        yield event({"content": "I look."})
        yield event({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":'}}]})
        yield event({"tool_calls": [{"index": 0, "function": {"arguments": ' "sea"}'}}]})
        yield event({}, "tool_calls") + b"data: [DONE]\n\n"

    server = stub(answer, [said("yes")])
    browser.open(server.address)
    say("Hello")
    assert browser.run("!$('log').querySelector('details').open")
    assert 400 < float(re.fullmatch(r"Reasoned for (\d+) ms", browser.text("summary"))[1]) < 1000
    assert browser.run("$('log').querySelector('details div').textContent") == "Let me see."
    assert "Call of look" in browser.text(".message:last-child") and '{"at": "sea"}' in browser.text(".message:last-child pre")
    say("Go on")
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    assert server.asked[1]["messages"][1] == {"role": "assistant", "content": "I look.", "reasoning_content": "Let me see.",
                                              "tool_calls": [call]}


def test_settings_are_sent_and_empty_ones_are_not(stub, browser, say):
    server = stub([said("yes")])
    browser.open(server.address)
    browser.until("model.id")
    say("Hello")
    assert set(server.asked[0]) == {"model", "messages", "stream", "stream_options"}
    browser.click("#open-settings")
    for name, value in [("system", "Be brief."), ("temperature", "0.5"), ("top_p", "0.9"), ("max_completion_tokens", "50"), ("seed", "7")]:
        browser.run(f"document.querySelector('[name={name}]').focus()")
        browser.type(value)
    browser.run("s = document.querySelector('select'); s.value = 'off'; s.dispatchEvent(new Event('input', {bubbles: true}))")
    browser.key("Escape")
    assert not browser.run("$('settings').open")
    say("Again")
    asked = server.asked[1]
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (asked["temperature"], asked["top_p"], asked["max_completion_tokens"], asked["seed"]) == (0.5, 0.9, 50, 7)
    assert asked["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    browser.click("#open-settings")
    assert browser.run("document.querySelector('[name=seed]').value") == "7"
    browser.run("""document.querySelectorAll('[name]').forEach((field) => {
        field.value = ''; field.dispatchEvent(new Event('input', {bubbles: true})); })""")
    browser.click("#settings .strong")
    say("Again")
    assert set(server.asked[2]) == set(server.asked[0])


def test_scrolling_follows_only_at_the_end(stub, browser, say):
    steps = [threading.Event() for _ in range(3)]

    def answer():
        for step in steps:
            for line in range(60):
                yield event({"content": f"line {line}\n\n"})
            step.wait(10)
        yield said("the end")

    server = stub(answer)
    browser.open(server.address)
    say("Hello", waits=False)
    gap = "$('scroll').scrollHeight - $('scroll').clientHeight - $('scroll').scrollTop"
    browser.until(f"chat.messages[1]?.content.split('line 59').length === 2 && $('log').innerText.includes('line 59') && {gap} < 2")
    browser.run("$('scroll').scrollTop = 200")
    time.sleep(0.1)
    steps[0].set()
    browser.until("$('log').innerText.split('line 59').length === 3")
    assert browser.run("$('scroll').scrollTop") == 200
    browser.run("$('scroll').scrollTop = 1e6")
    time.sleep(0.1)
    steps[1].set()
    browser.until(f"$('log').innerText.split('line 59').length === 4 && {gap} < 2")
    steps[2].set()
    browser.until(f"!jobs.size && {gap} < 2")


def test_keys_of_the_field(stub, browser, say):
    server = stub([said("yes")])
    browser.open(server.address)
    assert browser.run("document.activeElement.id") == "input"
    browser.type("one")
    browser.key("Enter", shift=True)
    browser.type("two")
    assert browser.run("$('input').value") == "one\ntwo" and server.asked == []
    height = browser.run("$('input').offsetHeight")
    browser.key("Enter")
    browser.until("!jobs.size && chat.messages.length === 2")
    assert server.asked[0]["messages"][0]["content"] == "one\ntwo"
    assert browser.run("$('input').offsetHeight") < height
    browser.key("Enter")  # nothing to send
    assert len(server.asked) == 1
