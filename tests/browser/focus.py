# SPDX-License-Identifier: Apache-2.0
"""A tour of a page by the tab key."""

from __future__ import annotations

from typing import NamedTuple

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.browser import Browser

REACHABLE = """
document.querySelectorAll('[data-refresh]').forEach(each => each.removeAttribute('id'));
const all = [...document.querySelectorAll('a[href], button, input, select, textarea,' +
  'summary, [tabindex]')].filter(each => each.tabIndex >= 0 && !each.disabled &&
  each.type !== 'hidden' &&
  each.checkVisibility({checkVisibilityCSS: true, contentVisibilityAuto: true}));
all.forEach((each, number) => each.dataset.stop = number);
return all.length;
"""
"""Numbers what the tab key must reach; returns how much it is.

Nothing is refreshed from then on: what comes anew would have no number.
"""
RECORD = """
window.stops = [];
const here = at => {
const style = getComputedStyle(at);
const name = at.getAttribute('aria-label') || at.innerText || at.title ||
  (at.labels && at.labels[0] && at.labels[0].innerText) || at.textContent ||
  (at.getAttribute('aria-labelledby') || '');
const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
return [at.dataset.stop === undefined ? -1 : +at.dataset.stop,
  outlined || style.boxShadow !== 'none', at.matches('.skip'), name.trim().slice(0, 60),
  at.outerHTML.slice(0, 120)];
};
document.addEventListener('focusin', event => window.stops.push(here(event.target)));
"""
"""Notes from then on what gets the focus."""


class Stop(NamedTuple):
    """Something that has the focus: ``is_marked``, so that it is seen."""

    number: int
    is_marked: bool
    is_skip: bool
    name: str
    text: str

    @property
    def is_named(self) -> bool:
        return bool(self.name)


def tour(browser: Browser, most: int) -> list[Stop]:
    """Press the tab key from the top of a page until it leaves; return the stops."""
    browser.run(RECORD)
    ActionChains(browser.driver, duration=0).send_keys(Keys.TAB * most).perform()
    found: list[Stop] = []
    for stop in (Stop(*each) for each in browser.run('return window.stops')):
        if stop.number < 0 or (found and stop.number == found[0].number):
            break
        found.append(stop)
    return found
