"""Headless Chromium over its DevTools protocol, by pipes: messages are JSON, each ended by a zero byte. No package is needed
for that, and no port is open."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-headless-shell")


class Browser:
    """One page. Each has a profile of its own, which stores nothing that another one sees."""

    def __init__(self, width=1200, height=800):
        program = next(found for name in PROGRAMS if (found := shutil.which(name)))
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        there, self._out = os.pipe()
        self._in, back = os.pipe()

        def as_3_and_4():
            copies = os.dup(there), os.dup(back)  # 3 or 4 may be one of these
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        command = [program, "--headless", "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "--disable-gpu",
                   "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        if os.getuid() == 0:
            command.append("--no-sandbox")  # which cannot be made for root
        self._process = subprocess.Popen([*command, "about:blank"], preexec_fn=as_3_and_4, close_fds=False,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there)
        os.close(back)
        self._bytes, self._n, self._session = b"", 0, None
        self.logged = []  # errors and warnings of the page
        self.downloads = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def close(self):
        self._process.terminate()
        self._process.wait(20)
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()
        self.downloads.cleanup()

    # ---- The protocol

    def call(self, method, **parameters):
        self._n += 1
        message = {"id": self._n, "method": method, "params": parameters}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        number = self._n
        while (answer := self._next(60)).get("id") != number:
            self._note(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _next(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._bytes += piece
        message, _, self._bytes = self._bytes.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.logged.append(details.get("exception", {}).get("description") or details["text"])
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.logged.append(parameters["entry"]["text"])

    # ---- What tests do

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && typeof ask === 'function'")

    def reload(self):
        self.run("window.isOld = true")
        self.call("Page.reload")
        self.until("!window.isOld && document.readyState === 'complete' && typeof ask === 'function'")

    def run(self, expression):
        """The value of an expression of JavaScript in the page, or of the promise that it gives."""
        given = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in given, (expression, given["exceptionDetails"])
        return given["result"].get("value")

    def until(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while True:
            try:
                if self.run(f"Boolean({expression})"):
                    return
            except AssertionError as failed:
                if time.monotonic() > end or "context" not in str(failed):  # it navigates
                    raise
            assert time.monotonic() < end, (expression, self.run("document.body.innerText"), self.logged)
            time.sleep(0.03)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.innerText)")

    def click(self, selector):
        """Where its middle is, as a mouse does: what covers it gets the click."""
        place = self.run(f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: 'nearest'}});
            const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="none" if kind == "mouseMoved" else "left",
                      clickCount=0 if kind == "mouseMoved" else 1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, shift=False):
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36}[key]
        known = dict(key=key, code=key, windowsVirtualKeyCode=code, modifiers=8 if shift else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", **known, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def scheme(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def keep_downloads(self):
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.downloads.name)
        return self.downloads.name
