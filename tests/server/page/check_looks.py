"""What the page looks like: pictures for people (--pictures DIR), and what can be measured: contrast, overflow, names, jumps."""

import json
import threading

import pytest
from stub import event, said

TOUR = open(__file__.replace("check_looks.py", "tour.md"), encoding="utf-8").read()
QUESTION = "Can you show me what you can do with text? A short tour, please."

# The least contrast of texts that are seen with what is below them, by WCAG 2; of what is open to the eye.
CONTRAST = """(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => channels(color).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const below = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if ((channels(color)[3] ?? 1) === 1) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true}) || element.closest('script, style, select')) continue;
    const [a, b] = [luminance(style.color), luminance(below(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0])[0];
})()"""


@pytest.fixture
def tour(stub, browser, say):
    """A conversation with all that can be in one."""
    refusal = (429, {"Retry-After": 7}, json.dumps({"error": {"message": "64 choices are waiting, which is as many as may"}}).encode())
    reasoning = event({"reasoning_content": "The user greets me. I say hello, and ask what to do."})
    call = event({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "weather", "arguments": '{"place": "Bergen"}'}}]})
    server = stub([reasoning, said("Hello! ", "I am a **small** model. ", "What would you like to know?")], [said(*TOUR, prompt=1812)],
                  [event({"content": "I look."}), call, event({}, "tool_calls"), b"data: [DONE]\n\n"], refusal)
    browser.open(server.address)
    browser.until("model.id")
    say("Hello, who are you?")
    say(QUESTION)
    return server


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_and_contrast(tour, browser, say, picture, scheme):
    browser.scheme(scheme)
    picture(f"{scheme}-end")
    browser.run("$('scroll').scrollTop = 0; document.querySelector('details').open = true")
    picture(f"{scheme}-begin")
    least = [browser.run(CONTRAST)]
    say("And the weather in Bergen?")
    say("Once more?")
    picture(f"{scheme}-refused")
    least.append(browser.run(CONTRAST))
    browser.run("$('key-form').hidden = false; edit(chat.messages[0])")
    picture(f"{scheme}-notices")
    least.append(browser.run(CONTRAST))
    browser.run("$('key-form').hidden = true; edit(null)")
    browser.click("#open-settings")
    picture(f"{scheme}-settings")
    least.append(browser.run(CONTRAST))
    browser.key("Escape")
    browser.click("#new")
    picture(f"{scheme}-new")
    least.append(browser.run(CONTRAST))
    assert all(ratio >= 4.5 for ratio, _ in least), least


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_phone(tour, browser, say, picture, width):
    browser.size(width, 700, phone=True)
    browser.scheme("light")
    picture(f"phone-{width}")
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("$('scroll').scrollWidth <= $('scroll').clientWidth")
    assert browser.run("$('send').getBoundingClientRect().bottom < innerHeight && $('send').getBoundingClientRect().right < innerWidth")
    if width < 768:
        assert not browser.run("$('new').checkVisibility({visibilityProperty: true})")  # no key reaches what is not seen
    browser.click("#menu")
    assert browser.run("document.activeElement.id") == "new"
    picture(f"phone-{width}-menu")
    browser.key("Escape")
    assert browser.run("$('menu').getAttribute('aria-expanded')") == "false"
    browser.run("$('input').focus()")
    browser.type("one")
    browser.key("Enter")  # a new line: there is no Shift
    assert browser.run("$('input').value") == "one\n"


def test_names_for_those_who_do_not_see(tour, browser):
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "textbox", "log", "meter", "complementary", "article"):
        assert roles[role] and all(roles[role]), (role, roles[role])
    assert {"New conversation", "Settings", "Send", "Save as JSON"} <= set(roles["button"])
    assert browser.run("$('log').getAttribute('aria-live')") == "polite"
    assert browser.run("[...document.querySelectorAll('[aria-busy=true]')].length") == 0


def test_keys_reach_all_and_show_where_they_are(tour, browser):
    browser.call("Accessibility.enable")
    browser.run("$('new').focus()")
    seen = []
    for _ in range(40):
        browser.key("Tab")
        place, outline = browser.run("""(() => { const at = document.activeElement;
            return at === document.body ? [null, ''] : [at.title || at.id || at.textContent.slice(0, 20), getComputedStyle(at).outlineStyle + getComputedStyle(at.parentElement).boxShadow]; })()""")
        if place is None:  # all were visited
            break
        seen.append(place)
        assert outline != "nonenone", place
    assert {"Settings", "input", "Send", "Edit", "Copy", "Try again"} <= set(seen), seen


def test_nothing_jumps_while_an_answer_comes(stub, browser, say):
    go_on = [threading.Event() for _ in range(3)]

    def answer():
        go_on[0].wait(10)
        yield event({"content": "The first words"})
        go_on[1].wait(10)
        yield event({"content": " and **more"})
        go_on[2].wait(10)
        yield said("** of them.")

    browser.open(stub(answer).address)
    browser.until("model.id")
    say("Hello", waits=False)
    places = """[$('send'), $('input'), $('title'), ...document.querySelectorAll('.bubble')].map((one) =>
        [one.getBoundingClientRect().x, one.getBoundingClientRect().y].join())"""
    browser.until("jobs.size")
    before = browser.run(places)
    for step, words in zip(go_on, ["The first words", "and more", "of them."]):
        step.set()
        browser.until(f"$('log').innerText.includes({json.dumps(words)})")
        assert browser.run(places) == before
    browser.until("!jobs.size")
    assert browser.run(places) == before
