"""A real Chromium, driven through its DevTools pipe: no driver, no port and no further package."""

import base64
import itertools
import json
import os
import select
import subprocess
from pathlib import Path

# Seconds without a word from the browser, after which it hangs.
PATIENCE = 60


class Chromium:
    """A headless browser. Commands go to file descriptor 3 of it, and answers come from 4."""

    def __init__(self, program, profile):
        reads, self.out = os.pipe()
        self.into, writes = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += ["--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}"]
        start = ["bash", "-c", f'exec "$0" "$@" 3<&{reads} 4>&{writes}', program, *flags]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*start, "about:blank"], pass_fds=(reads, writes), **quiet)
        os.close(reads)
        os.close(writes)
        self.numbers, self.rest, self.answers = itertools.count(1), b"", {}

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        os.close(self.out)
        os.close(self.into)

    def open(self, address, *, width=1280, height=900, dark=False, script=True):
        """Return a tab that has loaded an address."""
        made = self.call("Target.createTarget", {"url": "about:blank"})
        joined = {"targetId": made["targetId"], "flatten": True}
        tab = Tab(self, self.call("Target.attachToTarget", joined)["sessionId"], script=script)
        tab.call("Page.enable")
        tab.call("Runtime.enable")
        tab.call("Network.enable")
        tab.call("Log.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        tab.call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", {"features": [scheme]})
        tab.call("Emulation.setScriptExecutionDisabled", {"value": not script})
        tab.go(address)
        return tab

    def call(self, method, params=None, session=None):
        """Return what a command answers, and keep what happens meanwhile in the tabs' events."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params or {}}
        message |= {"sessionId": session} if session else {}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while number not in self.answers:
            self.listen()
        answer = self.answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def listen(self):
        """Read one message more."""
        while b"\0" not in self.rest:
            assert select.select([self.into], [], [], PATIENCE)[0], "Chromium does not answer"
            more = os.read(self.into, 1 << 20)
            assert more, "Chromium has ended"
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            EVENTS.setdefault(message.get("sessionId"), []).append(message)


EVENTS = {}


class Tab:
    """A page in the browser."""

    def __init__(self, browser, session, *, script=True):
        self.browser, self.session, self.script = browser, session, script
        self.events = EVENTS.setdefault(session, [])

    def call(self, method, params=None):
        return self.browser.call(method, params, self.session)

    def go(self, address):
        """Load an address, and wait until it is there; a place on the same page loads nothing."""
        before = len(self.named("Page.loadEventFired"))
        loads = "loaderId" in self.call("Page.navigate", {"url": address})
        while loads and len(self.named("Page.loadEventFired")) == before:
            self.browser.listen()

    def named(self, method):
        return [event["params"] for event in self.events if event["method"] == method]

    def requests(self):
        """Return the addresses that were asked for."""
        return [event["request"]["url"] for event in self.named("Network.requestWillBeSent")]

    def errors(self):
        """Return what the page or the browser complained of."""
        thrown = [event["exceptionDetails"] for event in self.named("Runtime.exceptionThrown")]
        logged = [event["entry"] for event in self.named("Log.entryAdded")]
        return [*thrown, *(entry for entry in logged if entry["level"] == "error")]

    def js(self, code):
        """Return the value of an expression; a promise is waited for, where scripts run."""
        asked = {"expression": code, "returnByValue": True, "awaitPromise": self.script}
        answer = self.call("Runtime.evaluate", asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, *, text=""):
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, " ": 32}.get(key, 0)
        text = text or {"Enter": "\r", " ": " "}.get(key, "")
        stroke = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **stroke})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **stroke})

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def texts(self, selector):
        """Return the texts of all visible elements that a selector finds."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.js(f"{found}.filter(e => e.checkVisibility()).map(e => e.textContent.trim())")

    def screenshot(self, file):
        shot = self.call("Page.captureScreenshot", {"captureBeyondViewport": False})
        file.write_bytes(base64.b64decode(shot["data"]))


def shoot(tab, name):
    """Write a screenshot to $VLBENCH_SHOTS, if it is set."""
    if "VLBENCH_SHOTS" in os.environ:
        folder = Path(os.environ["VLBENCH_SHOTS"])
        folder.mkdir(parents=True, exist_ok=True)
        tab.screenshot(folder / f"{name}.png")
