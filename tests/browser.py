"""A real browser for tests: Debian's chromium, driven by chromedriver over plain HTTP."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import Request, urlopen

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1000,800",
]

SECONDS = 60
"""For each answer of the browser, and for its start and end."""

TAB, ENTER, ESCAPE, SPACE_BAR, SHIFT = "\ue004", "\ue007", "\ue00c", " ", "\ue008"
LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"


def is_installed() -> bool:
    """Return whether there is a browser, and what drives it."""
    return all(map(shutil.which, ("chromium", "chromedriver")))


class Browser:
    """One window; see the W3C's WebDriver for what is sent."""

    def __init__(self, profile: Path) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self._driver.stdout
        # A driver that never says its port is killed, which ends its output and this loop.
        limit = Timer(SECONDS, self._driver.kill)
        limit.start()
        ports = (re.search(r"successfully on port (\d+)", line) for line in self._driver.stdout)
        port = next((found[1] for found in ports if found), None)
        limit.cancel()
        assert port, f"chromedriver did not start within {SECONDS} seconds"
        self._address = f"http://127.0.0.1:{port}/session"
        options = {
            "binary": shutil.which("chromium"),
            "args": [*FLAGS, f"--user-data-dir={profile}"],
        }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        session = self._post("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self._address += f"/{session}"

    def _post(self, command: str, body: dict[str, Any]) -> Any:
        request = Request(
            self._address + command,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            urlopen(Request(self._address, method="DELETE"), timeout=SECONDS).close()
        finally:
            self._driver.terminate()
            self._driver.communicate(timeout=SECONDS)

    def open(self, address: str) -> None:
        """Load a page."""
        self._post("/url", {"url": address})

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self._post("/execute/sync", {"script": f"return {script}", "args": []})

    def press(self, *keys: str) -> None:
        """Press keys one after the other; `SHIFT + ENTER` is one with the other held down."""
        strokes = []
        for held in keys:
            strokes += [{"type": "keyDown", "value": key} for key in held]
            strokes += [{"type": "keyUp", "value": key} for key in reversed(held)]
        self._post("/actions", {"actions": [{"type": "key", "id": "k", "actions": strokes}]})

    def point(self, selector: str, *, clicks: int = 0) -> None:
        """Move the pointer to an element, and click there."""
        self.point_at(f"document.querySelector('{selector}')", clicks=clicks)

    def point_at(self, box: str, *, clicks: int = 0) -> None:
        """Move the pointer to what an expression yields, an element or a range of text."""
        place = self.run(f"{box}.getBoundingClientRect()")
        x, y = (
            round(place[start] + place[size] / 2)
            for start, size in (("x", "width"), ("y", "height"))
        )
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "x": x, "y": y}]
        moves += [
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ] * clicks
        self._post("/actions", {"actions": [{"type": "pointer", "id": "m", "actions": moves}]})

    def emulate(self, command: str, **parameters: object) -> Any:
        """Send a command of the developer tools: dark colors, a narrow window."""
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self) -> list[str]:
        """Return the messages of the page's console since the last time."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def requests(self, address: str) -> list[str]:
        """Return what the page of an address has asked for since the last time, itself too."""
        events = [
            json.loads(entry["message"])["message"]
            for entry in self._post("/se/log", {"type": "performance"})
        ]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"] == address
        ]
