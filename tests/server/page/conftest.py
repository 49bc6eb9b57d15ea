"""A browser for each test, a stub server with the page and its true policy, and pictures that are kept if asked for."""

import base64
import hashlib
import re

import pytest
from browser import Browser
from stub import PAGE, Stub


def pytest_addoption(parser):
    parser.addoption("--pictures", help="folder for pictures of the page, to be looked at")


def policy():
    """As server/page/embed.cmake computes it; tests/server/test_page.py compares."""
    page = open(PAGE, "rb").read()
    hashes = {}
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.S)[1]
        hashes[tag] = base64.b64encode(hashlib.sha256(text).digest()).decode()
    return (f"default-src 'none'; connect-src 'self'; img-src data:; style-src 'sha256-{hashes['style']}'; "
            f"script-src 'sha256-{hashes['script']}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


@pytest.fixture
def browser():
    made = Browser()
    yield made
    logged = made.logged
    made.close()
    assert not [line for line in logged if "Failed to load resource" not in line and "net::ERR" not in line], logged


@pytest.fixture
def stub():
    made = []

    def start(*answers, **options):
        made.append(Stub(policy(), **options))
        made[-1].answers = list(answers)
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def picture(request, browser, tmp_path):
    folder = request.config.getoption("--pictures") or tmp_path

    def take(name):
        browser.run("new Promise((done) => setTimeout(done, 300))")  # what moves has come to rest
        browser.picture(f"{folder}/{name}.png")

    return take


@pytest.fixture
def say(browser):
    """Types a message and sends it; waits for the end of the answer unless told not to."""

    def send(text, waits=True):
        browser.run("$('input').focus()")
        browser.type(text)
        browser.key("Enter")
        if waits:
            browser.until("!jobs.size")

    return send
