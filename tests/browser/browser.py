# SPDX-License-Identifier: Apache-2.0
"""Debian's chromium, driven by selenium: what tests of pages do with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

AXE = Path(__file__).with_name('axe') / 'axe.min.js'
WITHIN_S = 60.0
LEAVING = 'does not belong to the document'
"""What chromedriver may say while one page takes the place of another."""
LIGHT, DARK = 'light', 'dark'
COLOURS = ('color-contrast', 'link-in-text-block')
"""The rules of axe that a theme may break."""
OPTIONS = (
    '--headless=new',
    '--no-sandbox',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--hide-scrollbars',
    # One process for all pages, instead of two new ones for each that is opened.
    '--renderer-process-limit=1',
    '--disable-site-isolation-trials',
    '--disable-features=SpareRendererForSitePerProcess',
    '--force-color-profile=srgb',
    # 127.0.0.1 under another name.
    '--host-resolver-rules=MAP *.test 127.0.0.1',
)
CHECK = """
const done = arguments[arguments.length - 1];
const only = arguments[0] ? {runOnly: arguments[0]} : {};
axe.run(document, {resultTypes: ['violations'], ...only}).then(
  found => done(found.violations.map(each => each.id + ': ' + each.nodes.map(
    node => node.target.join(' ') + ' ' + node.failureSummary).join('; '))),
  problem => done(['axe failed: ' + problem]));
"""


class Browser:
    """A chromium that looks at the console at ``address``."""

    def __init__(self, driver: webdriver.Chrome, address: str = '') -> None:
        self.driver = driver
        self.address = address

    # -- going somewhere

    def open(self, path: str) -> None:
        """Open a page of the console, and wait until all of it is there."""
        self.driver.get(self.address + path)

    @property
    def path(self) -> str:
        """The path and query of the page that is open."""
        where = urlsplit(self.driver.current_url)
        return where.path + (f'?{where.query}' if where.query else '')

    def until(self, so: Any, words: str = '') -> Any:
        """Wait until a function of nothing returns something true; return that."""

        def found(_: Any) -> Any:
            try:
                return so()
            except WebDriverException as problem:
                if LEAVING not in str(problem):
                    raise
                return None

        return WebDriverWait(self.driver, WITHIN_S, 0.05).until(found, words)

    @contextlib.contextmanager
    def hastened(self, times: int) -> Iterator[None]:
        """Let timers of pages that are opened within run so many times as fast."""
        source = (
            '{ const later = window.setTimeout;'
            f'  window.setTimeout = (act, ms) => later(act, ms / {times}); }}'
        )
        made = self._tell('Page.addScriptToEvaluateOnNewDocument', source=source)
        try:
            yield
        finally:
            self._tell('Page.removeScriptToEvaluateOnNewDocument', **made)

    # -- what is on a page

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a CSS selector selects."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> WebElement:
        """Return the first of them; there must be one."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = 'body') -> str:
        """Return what is seen of an element."""
        return self.one(selector).text

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function body in the page."""
        return self.driver.execute_script(script, *arguments)

    def status(self, path: str) -> int:
        """Return the status of an answer, as a script of the page gets it."""
        found: int = self.driver.execute_async_script(
            'const done = arguments[1];'
            'fetch(arguments[0]).then(answer => done(answer.status), () => done(0));',
            path,
        )
        return found

    # -- how it is looked at

    def size(self, width: int, height: int = 900) -> None:
        """Look through a window of so many CSS pixels."""
        self._tell(
            'Emulation.setDeviceMetricsOverride',
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, theme: str) -> None:
        """Prefer a light or a dark page, whose colours change at once."""
        wanted = {'prefers-color-scheme': theme, 'prefers-reduced-motion': 'reduce'}
        features = [{'name': name, 'value': value} for name, value in wanted.items()]
        self._tell('Emulation.setEmulatedMedia', features=features)

    def scripts(self, run: bool) -> None:
        """Let pages run their scripts, or not."""
        self._tell('Emulation.setScriptExecutionDisabled', value=not run)

    def cover(self) -> str:
        """Open another tab over the page, which is hidden then; return its name."""
        made = self._tell('Target.createTarget', url='about:blank')
        return str(made['targetId'])

    def uncover(self, other: str) -> None:
        """Close the tab over the page."""
        self._tell('Target.closeTarget', targetId=other)

    def violations(self, *rules: str) -> list[str]:
        """Return what axe finds on the page that is open, by some rules or by all."""
        self.driver.execute_script(AXE.read_text())
        found: list[str] = self.driver.execute_async_script(CHECK, rules or None)
        return found

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        found = []
        for entry in self.driver.get_log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                found.append(message['params']['request']['url'])
        return found

    def complaints(self) -> list[str]:
        """Return what the browser said of pages since the last call: errors of scripts,
        and what the policy for their content forbade."""
        return [entry['message'] for entry in self.driver.get_log('browser')]

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(self.driver.get_screenshot_as_png())

    def as_before(self) -> None:
        """Forget what a test has changed."""
        driver = self.driver
        first, *others = driver.window_handles
        for other in others:
            driver.switch_to.window(other)
            driver.close()
        driver.switch_to.window(first)
        driver.get('about:blank')
        self.scripts(run=True)
        self.size(1280)
        self.prefer(LIGHT)
        if self.address:
            self._tell(
                'Storage.clearDataForOrigin', origin=self.address, storageTypes='all'
            )
        self.requests()
        self.complaints()

    def _tell(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)


@contextlib.contextmanager
def started() -> Iterator[webdriver.Chrome]:
    """Start a browser; it ends with the context."""
    options = webdriver.ChromeOptions()
    options.binary_location = '/usr/bin/chromium'
    for each in OPTIONS:
        options.add_argument(each)
    options.set_capability(
        'goog:loggingPrefs', {'performance': 'ALL', 'browser': 'ALL'}
    )
    driver = webdriver.Chrome(options, webdriver.ChromeService('/usr/bin/chromedriver'))
    try:
        driver.set_page_load_timeout(60)
        driver.set_script_timeout(60)
        yield driver
    finally:
        driver.quit()
