"""One browser for all tests of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.api.web.answers import Answers, serving

_PATIENCE_S = 60
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,800",
)


class Page:
    """The page in a browser, and what it is answered."""

    def __init__(self, browser: webdriver.Chrome, answers: Answers, address: str) -> None:
        self.browser = browser
        self.answers = answers
        self.address = address

    def open(self, route: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}/{route}")

    def run(self, script: str, *arguments: object) -> Any:
        return self.browser.execute_script(f"return {script}", *arguments)

    def until(self, script: str, *arguments: object) -> Any:
        """What the expression gives, as soon as it is true."""
        return WebDriverWait(self.browser, _PATIENCE_S, poll_frequency=0.1).until(
            lambda _: self.run(script, *arguments), f"never true: {script}"
        )

    def text(self, selector: str) -> str:
        """The visible text of the first such element, as soon as there is one."""
        script = "document.querySelector(arguments[0])?.innerText.trim()"
        return str(self.until(script, selector))

    def texts(self, selector: str) -> list[str]:
        script = "[...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())"
        found: list[str] = self.run(script, selector)
        return found

    def press(self, selector: str) -> None:
        self.until("document.querySelector(arguments[0])", selector)
        self.run("document.querySelector(arguments[0]).click()", selector)

    def tip(self, selector: str) -> list[str]:
        """Lines of the tooltip that an element shows when it has the focus."""
        self.until("document.querySelector(arguments[0])", selector)
        self.run("document.querySelector(arguments[0]).focus()", selector)
        self.until("!document.getElementById('tip').hidden")
        return self.texts("#tip div")

    def requested(self) -> list[str]:
        """Addresses that were asked for since the last call."""
        messages = [json.loads(entry["message"]) for entry in log(self.browser, "performance")]
        return [
            message["message"]["params"]["request"]["url"]
            for message in messages
            if message["message"]["method"] == "Network.requestWillBeSent"
        ]


def log(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """Entries since the last call."""
    entries: list[dict[str, Any]] = browser.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A headless Chromium; without one, the test is skipped."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile: Path = tmp_path_factory.mktemp("profile")
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    # Nobody looks at a headless window; without this, it never has the focus.
    started.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    started.get("about:blank")  # away from the browser's own first page
    try:
        yield started
    finally:
        started.quit()


@pytest.fixture
def page(browser: webdriver.Chrome) -> Iterator[Callable[[Answers], Page]]:
    """Opens pages. None may ask another host for anything or write to the console."""
    opened: list[Page] = []
    closing = []

    def make(answers: Answers) -> Page:
        server = serving(answers)
        closing.append(server)
        made = Page(browser, answers, server.__enter__())
        for kind in ("browser", "performance"):
            log(browser, kind)  # forget what was before
        opened.append(made)
        return made

    yield make
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    elsewhere = [
        url for one in opened for url in one.requested() if not url.startswith(one.address)
    ]
    said = [entry["message"] for entry in log(browser, "browser")]
    browser.get("about:blank")
    for server in closing:
        server.__exit__(None, None, None)
    assert [url for url in elsewhere if not url.startswith(("about:", "chrome:"))] == []
    assert [line for line in said if not any(known in line for known in _EXPECTED)] == []


# The browser itself notes answers of an error and connections that failed.
_EXPECTED = ("Failed to load resource",)
