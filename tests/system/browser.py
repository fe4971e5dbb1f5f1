"""A headless Chromium, controlled by the DevTools protocol over two pipes.

No port, no driver, no WebSocket.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

SECONDS = 60  # for one answer; a page of 4 MB is there within one
# Chromium reads commands from descriptor 3 and answers on 4: messages in JSON, a NUL after each.
LAUNCH = ["bash", "-c", 'exec "$@" 3<&"$COMMANDS" 4>&"$ANSWERS"', "launch"]
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    # Required for root; only files made by the tests are opened.
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
)


class Browser:
    """One page of one Chromium. Use as a context manager.

    Attributes:
        requests: addresses that the page asked for.
        problems: exceptions and console messages of the page, including violations of its policy.
    """

    def __init__(self, profile: Path) -> None:
        command_out, self._commands = os.pipe()
        self._answers, answer_in = os.pipe()
        environment = {
            **os.environ,
            "COMMANDS": str(command_out),
            "ANSWERS": str(answer_in),
            "HOME": str(profile),
        }
        command = [*LAUNCH, "chromium", *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._log = (profile / "chromium.log").open("wb")
        self.process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=(command_out, answer_in),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(command_out)
        os.close(answer_in)
        self._number, self._rest, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._attach()

    def _attach(self) -> None:
        self.call("Target.setDiscoverTargets", discover=True)  # also reports existing pages
        while not (pages := self._pages()):  # Chromium may answer before it has one
            self._next()
        page = pages[0]
        self.call("Target.setDiscoverTargets", discover=False)
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _pages(self) -> list[str]:
        """Return the pages that Chromium has reported so far."""
        told = [
            event["params"]["targetInfo"]
            for event in self._events
            if event["method"] == "Target.targetCreated"
        ]
        return [target["targetId"] for target in told if target["type"] == "page"]

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command of the protocol; return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        """Return the next message; keep events, too."""
        end = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\0" not in self._rest:
                assert selector.select(end - time.monotonic()), (
                    f"Chromium said nothing for {SECONDS} s: {self.log()}"
                )
                read = os.read(self._answers, 2**20)
                assert read, f"Chromium has ended: {self.log()}"
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._note(message["method"], message["params"])
            self._events.append(message)
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(parameters["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {parameters['message']}")

    def open(self, page: Path | str, fragment: str = "") -> None:
        """Load a file or an address afresh, and wait until it is drawn."""
        self._number += 1
        place = page if isinstance(page, str) else page.as_uri()
        address = f"{place}?{self._number}"  # otherwise another fragment would load nothing
        self._events.clear()
        self.call("Page.navigate", url=f"{address}{fragment}")
        while not self._loaded(address):
            self._next()
        self.settle()

    def _loaded(self, address: str) -> bool:
        """Return whether the page of this address, not the previous one, has been loaded."""
        methods = [event["method"] for event in self._events]
        for at, event in enumerate(self._events):
            if event["method"] == "Page.frameNavigated" and event["params"]["frame"][
                "url"
            ].startswith(address):
                return "Page.loadEventFired" in methods[at:]
        return False

    def settle(self) -> None:
        """Wait for two frames, so that the effect of the last event is drawn."""
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        found: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a selector, also of hidden ones."""
        texts: list[str] = self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            ".map((each) => each.textContent)"
        )
        return texts

    def point(self, selector: str) -> tuple[float, float]:
        """Scroll to an element and return its middle."""
        x, y = self.evaluate(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
            f"found.scrollIntoView({{block: 'nearest'}});"
            " const box = found.getBoundingClientRect(); return [box.x + box.width / 2, "
            "box.y + box.height / 2]; })()"
        )
        return x, y

    def move(self, selector: str) -> None:
        """Move the pointer to an element."""
        x, y = self.point(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, selector: str) -> None:
        """Click the left button in the middle of an element."""
        x, y = self.point(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def press(self, key: str, *, control: bool = False) -> None:
        """Press a key, by its name: "Tab", "ArrowDown", "Enter", "Escape", "?"."""
        code = {
            "Tab": 9,
            "Enter": 13,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowRight": 39,
            "ArrowDown": 40,
            "?": 191,
        }[key]
        text = {"text": {"Enter": "\r"}.get(key, key)} if key in ("Enter", "?") else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=2 if control else 0,
                **text,
            )
        self.settle()

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a field, in place of what it holds."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        self.evaluate(
            "new Promise((done) => { const look = () =>"
            f" ({expression}) ? done() : requestAnimationFrame(look); look(); }})"
        )
        self.settle()

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set a screen of this size in CSS pixels, with a light or dark theme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.settle()

    def picture(self, **options: Any) -> bytes:
        """Return a PNG of the visible page."""
        return base64.b64decode(
            self.call("Page.captureScreenshot", format="png", **options)["data"]
        )

    def log(self) -> str:
        """Return the end of Chromium's log."""
        return Path(self._log.name).read_text(errors="replace")[-2000:]

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._commands)  # Chromium ends when its command pipe closes
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            # A process group of its own: ends only its helpers.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._answers)
        self._log.close()
