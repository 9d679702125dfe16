# SPDX-License-Identifier: Apache-2.0
"""One browser and one console for the tests of a process.

What a test that failed saw last is kept in .pytest_cache/d/screenshots.
"""

import functools
import re

import pytest
import requests

from tests.browser import addresses, console
from tests.browser.browser import Browser, started

DECISIONS = 48


@pytest.fixture(scope='session')
def _driver():
    with started() as driver:
        yield driver


@pytest.fixture(scope='session')
def address():
    """Where the console of a cloud of 16 hosts is."""
    with console.running(f'--decisions={DECISIONS}') as found:
        yield found


@pytest.fixture(scope='session')
def cloud(address):
    """Ask that console for JSON: ``cloud('/hosts', state='down')``."""
    return functools.partial(json_of, address)


@pytest.fixture(scope='session')
def pages(cloud):
    """The paths of its pages, by name."""
    return addresses.every(cloud)


def json_of(address, path, **parameters):
    answer = requests.get(f'{address}/api/v1{path}', parameters, timeout=30)
    answer.raise_for_status()
    return answer.json()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == 'call' and report.failed:
        used = item.funcargs.values()
        for browser in (each for each in used if isinstance(each, Browser)):
            directory = item.config.cache.mkdir('screenshots')
            path = directory / f'{re.sub("[^a-zA-Z0-9]+", "-", item.name)}.png'
            browser.picture(path)
            report.sections.append(('screenshot', str(path)))
    return report


@pytest.fixture
def browser_at(_driver):
    """Look at a console at an address."""

    def at(address):
        browser = Browser(_driver, address)
        browser.as_before()
        return browser

    return at


@pytest.fixture
def browser(browser_at, address):
    return browser_at(address)
