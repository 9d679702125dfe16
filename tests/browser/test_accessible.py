# SPDX-License-Identifier: Apache-2.0
"""The pages of the console for everybody: by keyboard, without colour, on a phone,
without JavaScript."""

import re
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import contrast, focus
from tests.browser.addresses import PAGES
from tests.browser.browser import COLOURS, DARK, LIGHT

CHARTS = """
return [...document.querySelectorAll('main svg:not([aria-hidden=true])')].map(svg => {
  let table = null;
  for (let at = svg; at && !table && at.id !== 'main'; at = at.parentElement)
    for (let next = at.nextElementSibling; next && !table;
         next = next.nextElementSibling)
      if (next.matches('details.data')) table = next.querySelector('table');
  return {label: svg.getAttribute('aria-label') || '',
          role: svg.getAttribute('role'),
          links: svg.querySelectorAll('a').length,
          rows: table ? table.querySelectorAll('tbody tr').length : 0,
          headings: table ? table.querySelectorAll('th[scope]').length : 0};
});
"""
SEEN = {
    'overview': {'field', 'column', 'bar'},
    'decision': {'stage', 'bar'},
    'capacity': {'field', 'square', 'bar'},
    'heat': {'square'},
    'host': {'square', 'bar'},
}
"""What pages have whose contrast axe does not look at."""
ALIKE = (
    'decisions-none', 'decision-placement', 'decision-several', 'plan-empty',
    'capacity-by-host', 'hosts-slots', 'no-such-host',
)  # fmt: skip
"""Pages of a template that another page has, with the same or fewer parts."""
WIDTHS, OTHER_WIDTHS = (320, 1280), (360, 768, 3840)
DRAWN_ALONE = r"""
return [...document.querySelectorAll('main svg[aria-hidden=true]')].filter(svg =>
  svg.width.baseVal.value > 0 &&
  !/[\w–]/.test((svg.closest('tr, li, div, a') || {}).innerText || ''))
  .map(svg => svg.outerHTML.slice(0, 200));
"""


TEXT = "return document.querySelector('main').innerText"


@pytest.mark.parametrize('name', PAGES)
def test_every_page(browser, pages, name):
    browser.scripts(run=False)
    browser.open(pages[name])
    check_without_javascript(browser)
    titled, said = browser.driver.title, browser.run(TEXT)
    check_nothing_is_from_elsewhere(browser, least=2)
    browser.scripts(run=True)
    browser.open(pages[name])
    assert browser.driver.title == titled
    # Ages and times go on; what copies needs a script, and is not there.
    other = re.compile(r'[\d.:]+|Copy command|\s+')
    assert other.sub('', browser.run(TEXT)) == other.sub('', said)
    check_nothing_is_from_elsewhere(browser, least=3)
    check_charts(browser, name)
    check_widths(browser, WIDTHS)
    if name not in ALIKE:
        check_contrast(browser, name, LIGHT)
        check_keyboard(browser)
    if name in SEEN:
        browser.prefer(DARK)
        check_contrast(browser, name, DARK)


def check_without_javascript(browser):
    assert [each.is_displayed() for each in browser.all('main h1')] == [True]
    links = {each.get_attribute('href') for each in browser.all('header nav a')}
    paths = {urlsplit(each).path for each in links}
    assert {'/', '/decisions', '/plan', '/capacity', '/hosts'} <= paths
    assert not browser.one('#theme').is_displayed()


def check_nothing_is_from_elsewhere(browser, least):
    asked = browser.requests()
    assert len(asked) >= least
    here = f'{browser.address}/'
    assert [each for each in asked if not each.startswith(here)] == []
    refused = 'the server responded with a status of 40'  # as it should
    said = [each for each in browser.complaints() if refused not in each]
    assert said == []


def check_keyboard(browser):
    expected = browser.run(focus.REACHABLE)
    assert expected > 8
    stops = focus.tour(browser, expected + 5)
    assert stops[0].is_skip
    assert len({stop.number for stop in stops}) == expected
    assert [stop.text for stop in stops if not stop.is_marked] == []
    assert [stop.text for stop in stops if not stop.is_named] == []


def test_keys(browser, pages):
    browser.open('/')
    browser.one('body').send_keys(Keys.TAB, Keys.ENTER)
    assert browser.run('return document.activeElement.id') == 'main'
    for key, path in (
        ('d', '/decisions'),
        ('p', '/plan'),
        ('c', '/capacity'),
        ('h', '/hosts'),
        ('g', '/'),
    ):
        browser.one('body').send_keys(key)
        browser.until(lambda path=path: browser.path == path, f'{key} does nothing')
    browser.one('body').send_keys('/')
    assert browser.run('return document.activeElement.id') == 'search'
    browser.driver.switch_to.active_element.send_keys('dph')
    assert browser.path == '/'
    assert browser.one('#search').get_attribute('value') == 'dph'
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.run('return document.activeElement === document.body')
    browser.one('body').send_keys('h')
    browser.until(lambda: browser.path == '/hosts', 'it does not leave the search')


@pytest.mark.exhaustive('one sheet of colours serves all pages')
@pytest.mark.parametrize('name', [name for name in PAGES if name not in SEEN])
def test_dark_keeps_contrast(browser, pages, name):
    browser.prefer(DARK)
    browser.open(pages[name])
    check_contrast(browser, name, DARK)


def check_contrast(browser, name, theme):
    background, ink = browser.run(contrast.GROUND_AND_INK)
    assert (contrast.luminance(background) < 0.2) == (theme == DARK)
    assert contrast.ratio(background, ink) >= 7
    assert contrast.faint(browser) == []
    seen = {what for what, _, _ in browser.run(contrast.EDGES)}
    assert SEEN.get(name, set()) <= seen
    assert browser.violations(*COLOURS if theme == DARK else ()) == []


def test_the_theme_is_switched_and_kept(browser):
    def pressed():
        return browser.one('#theme').get_attribute('aria-pressed')

    browser.open('/')
    ground = browser.run(contrast.GROUND_AND_INK)[0]
    assert pressed() == 'false'
    browser.one('#theme').click()
    assert pressed() == 'true'
    other = browser.run(contrast.GROUND_AND_INK)[0]
    assert contrast.luminance(other) < 0.2 < contrast.luminance(ground)
    assert browser.run('return document.documentElement.dataset.theme') == DARK
    browser.open('/hosts')
    assert browser.run(contrast.GROUND_AND_INK)[0] == other
    assert pressed() == 'true'
    browser.one('#theme').click()
    assert browser.run(contrast.GROUND_AND_INK)[0] == ground


def check_charts(browser, name):
    charts = browser.run(CHARTS)
    # What is in an image is not read out: a chart of links is a group of them.
    wrong = [e for e in charts if e['role'] != ('group' if e['links'] else 'img')]
    assert wrong == []
    roles = {each['role'] for each in charts}
    assert [each for each in charts if len(each['label'].split()) < 3] == []
    assert [each for each in charts if not (each['rows'] and each['headings'])] == []
    assert browser.run(DRAWN_ALONE) == []
    if name in ('overview', 'capacity', 'capacity-by-zone', 'heat'):
        assert 'group' in roles
    if name in ('decision', 'host'):
        assert 'img' in roles


@pytest.mark.exhaustive('other pages of the same templates')
@pytest.mark.parametrize('name', ALIKE)
def test_a_page_that_is_like_another(browser, pages, name):
    browser.open(pages[name])
    check_contrast(browser, name, LIGHT)
    check_keyboard(browser)


@pytest.mark.exhaustive('other sizes of screen')
@pytest.mark.parametrize('name', PAGES)
def test_no_other_width_has_a_sideways_scroll(browser, pages, name):
    browser.open(pages[name])
    check_widths(browser, OTHER_WIDTHS)


def check_widths(browser, widths):
    for width in widths:
        browser.size(width, 800)
        wide, seen = browser.run(
            'return [document.documentElement.scrollWidth, innerWidth]'
        )
        assert (wide, seen) == (width, width)
        assert browser.one('h1').is_displayed()
