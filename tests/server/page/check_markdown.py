"""What texts become, at once and while they come letter by letter."""

import json
import re

import pytest

TOUR = open(__file__.replace("check_markdown.py", "tour.md"), encoding="utf-8").read()


@pytest.fixture
def page(stub, browser):
    browser.open(stub([b""]).address)
    browser.run("""window.html = (text, open) => { const one = new Markdown(); one.update(text, open); return one.root.innerHTML; }""")
    return browser


def html(page, text):
    return page.run(f"html({json.dumps(text)}, false)")


@pytest.mark.parametrize("text, expected", [
    ("a *b* **c** `d`", "<p>a <em>b</em> <strong>c</strong> <code>d</code></p>"),
    ("a_b_c 2*3*4 * x *", "<p>a_b_c 2*3*4 * x *</p>"),
    ("***a***", "<p><strong><em>a</em></strong></p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("__a__ _b_ ~~c~~", "<p><strong>a</strong> <em>b</em> <del>c</del></p>"),
    ("これは**太字**です", "<p>これは<strong>太字</strong>です</p>"),
    ("**a", "<p>**a</p>"),
    ("`` a`b `` `c", "<p><code>a`b</code> `c</p>"),
    (r"\*a\* \`b\`", "<p>*a* `b`</p>"),
    ("# a\n### b #\n#c", "<h3>a</h3><h5>b</h5><p>#c</p>"),
    ("a\nb\n\nc", "<p>a\nb</p><p>c</p>"),
    ("- a\n- b\n  - c\n\n- d\n\ne", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li><li><p>d</p></li></ul><p>e</p>"),
    ("3. a\n4. b", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'),
    ("- a\n1. b", '<ul><li><p>a</p></li></ul><ol start="1"><li><p>b</p></li></ol>'),
    ("> a\n> - b", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote>"),
    ("a\n\n---\n\n* * *", "<p>a</p><hr><hr>"),
    ("[a](https://e.org/b_(c)_d)", '<p><a href="https://e.org/b_(c)_d" rel="noopener noreferrer" target="_blank">a</a></p>'),
    ("[a](ftp://e.org)", "<p>[a](ftp://e.org)</p>"),
    ("(https://e.org/a_b_c).", '<p>(<a href="https://e.org/a_b_c" rel="noopener noreferrer" target="_blank">https://e.org/a_b_c</a>).</p>'),
])
def test_texts(page, text, expected):
    assert html(page, text) == expected


def test_code_blocks(page):
    shown = "[...one.root.querySelectorAll('.code')].map((code) => [code.querySelector('span').textContent, code.querySelector('pre').textContent])"

    def codes(text):
        return page.run(f"(() => {{ const one = new Markdown(); one.update({json.dumps(text)}, false); return {shown}; }})()")

    assert codes("a\n```py\nx\n\n  **y**\n```\nb") == [["py", "x\n\n  **y**"]]
    assert codes("~~~~ c++ extra\n```\n~~~\n~~~~") == [["c++ extra", "```\n~~~"]]
    assert codes("- a\n  ```\n  x\n    y\n  ```") == [["", "x\n  y"]]
    assert codes("```\nnot closed") == [["", "not closed"]]


def test_letter_by_letter_is_the_same_and_never_takes_back_what_was_shown(page):
    """The text that is shown only grows: no marker appears and goes, and no element changes its kind."""
    steps = page.run(f"""(() => {{
        const text = {json.dumps(TOUR)}, one = new Markdown(), steps = [];
        for (let n = 1; n <= text.length; ++n) {{
          one.update(text.slice(0, n), n < text.length);
          const copy = one.root.cloneNode(true);
          copy.querySelectorAll('.code > div').forEach((head) => head.replaceChildren());  // a name and a button
          steps.push([copy.textContent, [...one.root.querySelectorAll('*')].map((e) => e.tagName).join(' ')]);
        }}
        return [steps, one.root.innerHTML === html(text, false)];
    }})()""")
    assert steps[1]
    final, tags = steps[0][-1]
    for n, (text, has) in enumerate(steps[0]):
        assert final.startswith(text.replace("\u200b", "").rstrip()), (TOUR[:n + 1][-40:], text[-40:])
        assert tags.startswith(has), (TOUR[:n + 1][-40:], has[-60:])
