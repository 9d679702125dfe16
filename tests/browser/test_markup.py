# SPDX-License-Identifier: Apache-2.0
"""Names made of markup, quotes, templates and marks of direction stay text."""

import functools

import pytest
from selenium.webdriver.common.by import By

from tests.browser import addresses, console
from tests.browser.addresses import NOT_FOUND, PAGES
from tests.browser.conftest import json_of

RIGHT_TO_LEFT = '\u202e'
MARK = (
    '"onload="window.owned=1 \'><script>window.owned=1</script>'
    f'<img src=x onerror=window.owned=1>{{{{7*7}}}}{RIGHT_TO_LEFT}x'
)
ALIVE = """
const names = ['onload', 'onerror', 'onclick', 'onfocus', 'style'];
return [window.owned, document.images.length,
  document.querySelectorAll('main script, main iframe, main object').length,
  [...document.querySelectorAll('body *')].filter(
    each => names.some(name => each.hasAttribute(name))).length];
"""
REORDERED = """
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode;
  if (!text.data.includes(arguments[0]) || text.parentElement.closest('svg')) continue;
  let at = text.parentElement, alone = true, apart = false;
  for (; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    apart = apart || style.unicodeBidi !== 'normal';
    if (apart || !style.display.startsWith('inline') || style.display !== 'inline')
      break;
  }
  alone = at && at.textContent.trim() === text.data.trim();
  if (!apart && !alone) found.push(text.parentElement.outerHTML.slice(0, 200));
}
return found;
"""
"""Texts with a mark of direction that turns more than themselves."""


WITHOUT_HOSTS = ('counts', 'decisions-none', 'plan-no', 'plan-error', 'shadow', 'lab')
"""Pages that name no host."""


@pytest.fixture(scope='module')
def marked_address():
    with console.running('--decisions=12', f'--mark={MARK}') as found:
        yield found


@pytest.fixture(scope='module')
def marked(marked_address):
    return addresses.every(functools.partial(json_of, marked_address))


@pytest.fixture
def marked_browser(browser_at, marked_address):
    return browser_at(marked_address)


@pytest.mark.parametrize('name', [name for name in PAGES if name not in NOT_FOUND])
def test_a_host_called_script_is_text(marked_browser, marked, name):
    browser = marked_browser
    browser.open(marked[name])
    assert browser.run(ALIVE) == [None, 0, 0, 0]
    assert '49' not in browser.driver.title
    shown = browser.run('return document.body.textContent')
    if name not in WITHOUT_HOSTS:
        assert '<script>window.owned=1</script>' in shown
        assert '{{7*7}}' in shown
    assert browser.run(REORDERED, RIGHT_TO_LEFT) == []
    said = [each for each in browser.complaints() if 'a status of 400' not in each]
    assert said == []


def test_its_page_is_opened_by_its_name(marked_browser):
    browser = marked_browser
    browser.open('/hosts')
    link = browser.one('#hosts tbody a')
    name = link.text
    assert MARK[:10] in name
    link.click()
    browser.until(lambda: browser.path.startswith('/hosts/'))
    assert name in browser.text('h1')
    assert browser.run(ALIVE) == [None, 0, 0, 0]


def test_hints_of_users_are_text(marked_browser, marked):
    browser = marked_browser
    browser.open(marked['decision'])
    assert f'queue{MARK}'[:20] in browser.run('return document.body.textContent')


def test_typed_markup_is_text(marked_browser):
    browser = marked_browser
    for name, path in (
        ('flavor', '/plan'),
        ('name', '/hosts'),
        ('flavor', '/decisions'),
    ):
        browser.open(addresses.page(path, **{name: MARK}))
        assert browser.run(ALIVE) == [None, 0, 0, 0]
        assert MARK in [
            each.get_attribute('value') for each in browser.all('input')
        ] or MARK[:40] in browser.run('return document.body.textContent')


def test_json_is_no_page(marked_browser):
    browser = marked_browser
    browser.open('/api/v1/hosts')
    assert browser.run('return document.contentType') == 'application/json'
    assert browser.run('return window.owned') is None
    assert browser.driver.find_elements(By.TAG_NAME, 'script') == []
