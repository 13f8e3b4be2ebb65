#!/usr/bin/env python3
"""Opens a page of the report in headless Chromium and checks what is seen: no message of the console, every series of
every chart, no horizontal scroll on a phone, contrast in light and dark.

    check.py PAGE.html [PICTURES]     PICTURES: a folder for screenshots

Speaks the DevTools protocol over a pipe: nothing but Python and Chromium is needed."""

import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

# Name, width, height, colour scheme.
VIEWS = [
    ("phone", 375, 800, "light"),
    ("phone-dark", 375, 800, "dark"),
    ("light", 1280, 900, "light"),
    ("dark", 1280, 900, "dark"),
]
TIMEOUT_S = 60
INSPECT = pathlib.Path(__file__).with_name("inspect.js").read_text()


class Browser:
    """A browser with one tab."""

    def __init__(self, profile):
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        chromium = os.environ.get("CHROMIUM", "chromium")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-first-run",
                   "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        command = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", chromium, *options]
        self.process = subprocess.Popen(command, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.pending, self.number, self.session, self.events = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """The result of a method; events that come before it are kept."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def receive(self):
        end = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.back], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.back, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser says nothing")
            self.pending += piece
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def open(self, page):
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"the inspection failed: {answer['exceptionDetails']}")
        return answer["result"]["value"]

    def complaints(self):
        """Messages of the console and failures to load since the last call."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.consoleAPICalled":
                texts = [str(arg.get("value", arg.get("description"))) for arg in params["args"]]
                found.append(f"console.{params['type']}: {' '.join(texts)}")
            elif method == "Runtime.exceptionThrown":
                found.append(f"exception: {params['exceptionDetails'].get('text')}")
            elif method == "Log.entryAdded":
                found.append(f"log: {params['entry']['level']}: {params['entry']['text']}")
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(f"the page asks for {url}")
        self.events = []
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def look(browser, page, view, pictures):
    """What is wrong with the page at this size and in this scheme, and what was seen."""
    name, width, height, scheme = view
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(page)
    seen = browser.evaluate(INSPECT)
    if pictures:
        picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": seen["height"], "scale": 1})
        (pictures / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))
    return [f"{name}: {problem}" for problem in browser.complaints() + seen["problems"]], seen


def problems(browser, page, views, pictures=None, counts=None):
    """What is wrong with the page."""
    found, schemes = [], {}
    for view in views:
        complaints, seen = look(browser, page, view, pictures)
        found += complaints
        schemes[view[3]] = (seen["background"], seen["colour"])
        if counts is not None:
            counts.update(seen)
    if len(set(schemes.values())) < len(schemes):
        found.append("light and dark are the same")
    return found


def main():
    page = pathlib.Path(sys.argv[1]).resolve(strict=True)
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    counts = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        with Browser(profile) as browser:
            found = problems(browser, page, VIEWS, pictures, counts)
    for problem in found:
        print(f"{page.name}: {problem}")
    if found:
        sys.exit(1)
    print(f"{page.name}: {counts['charts']} charts with {counts['series']} series, {len(VIEWS)} views, no complaint")


if __name__ == "__main__":
    main()
