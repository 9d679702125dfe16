# SPDX-License-Identifier: Apache-2.0
"""The pages of the console in a browser: a cloud of 16 hosts."""

import re
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import addresses

RECORD_TEXTS = """
const [button] = arguments;
window.texts = [];
new MutationObserver(() => window.texts.push(button.innerText)).observe(
  button, {childList: true});
"""
"""Notes each text of a button: a busy machine may look at it too late."""


@pytest.fixture
def hasty(browser):
    """The browser, in whose pages two seconds are a fifth of one."""
    with browser.hastened(10):
        yield browser


def test_overview_refreshes_and_pauses_when_hidden(hasty):
    browser = hasty
    browser.open('/')
    region = browser.one('[data-refresh]')
    assert region.is_displayed()

    def refreshed():
        """Count the questions that the page has asked by itself."""
        return browser.run(
            "return performance.getEntriesByType('resource')"
            ".filter(each => each.initiatorType === 'fetch').length"
        )

    browser.run(
        "document.querySelectorAll('[data-refresh]')"
        ".forEach(each => each.dataset.before = 'yes');"
        "document.getElementById('as-of').textContent = 'old'"
    )
    browser.until(lambda: refreshed() >= 1, 'it does not refresh')
    browser.until(lambda: browser.text('#as-of') != 'old', 'it shows nothing new')
    other = browser.cover()
    browser.until(
        lambda: browser.run('return document.visibilityState') == 'hidden',
        'it is not hidden',
    )
    before = refreshed()
    # Timers of a page that is hidden run still, once a second.
    assert browser.driver.execute_async_script(
        'let ticks = 0; const done = arguments[0];'
        'const timer = setInterval(() => {'
        '  if (++ticks === 3) { clearInterval(timer); done(ticks); } }, 1000);'
    )
    assert refreshed() <= before + 1  # one may have been under way
    browser.uncover(other)
    browser.until(lambda: refreshed() > before + 1, 'it does not go on')


def test_focused_part_is_not_replaced(hasty):
    browser = hasty
    browser.open('/')
    marked = browser.run(
        "for (const id of ['figures', 'newest-rows']) {"
        "  const old = document.createElement('i'); old.className = 'old';"
        '  document.getElementById(id).append(old); }'
        "document.querySelector('#newest-rows a').focus();"
        "return document.querySelectorAll('.old').length"
    )
    assert marked == 2
    browser.until(lambda: not browser.all('#figures .old'), 'it does not refresh')
    assert browser.all('#newest-rows .old')
    browser.run('document.activeElement.blur()')
    browser.until(lambda: not browser.all('.old'), 'it does not go on')


def test_funnel_numbers_open_their_hosts(browser, pages):
    for name in ('decision', 'decision-filters', 'plan-no'):
        browser.open(pages[name])
        counts = [
            (int(re.sub(r'\D', '', link.text)), link.get_attribute('href'))
            for link in browser.all('a.funnel-count')
        ]
        if name != 'plan-no':
            assert len(counts) >= 2
        for count, href in counts:
            browser.driver.get(href)
            total = browser.one('#hosts').get_attribute('data-total')
            rows = browser.all('#hosts tbody tr')
            assert int(total) == count, href
            assert len(rows) == min(count, 100), href
        for row in browser.all('#hosts tbody tr')[:1]:
            assert row.find_element('css selector', 'a').get_attribute('href')


def test_funnel_shows_the_numbers_of_its_stages(browser, cloud, pages):
    stages = cloud(pages['decision-filters'])['stages']
    browser.open(pages['decision-filters'])
    seen = [int(re.sub(r'\D', '', each.text)) for each in browser.all('a.funnel-count')]
    expected = {stages[0]['in'], *(stage['out'] for stage in stages)}
    assert expected <= {*seen, 0}


def test_forms_work_without_javascript(browser):
    browser.scripts(run=False)
    browser.open('/plan')
    browser.one('#plan [name=flavor]').send_keys('vcpus=1,ram=512,disk=1')
    browser.one('#plan [type=submit]').click()
    browser.until(lambda: browser.all('#result'))
    assert 'flavor=vcpus' in browser.path
    browser.one('#search').send_keys('cmp-003', Keys.ENTER)
    browser.until(lambda: browser.path == '/hosts/cmp-003')
    assert browser.text('h1') == 'cmp-003'


def test_plan_ranks_hosts_and_says_what_would_change(browser, cloud):
    flavor = cloud('/capacity')['rows'][0]['flavor']
    browser.open('/plan')
    browser.one('#plan [name=flavor]').send_keys(flavor)
    count = browser.one('#plan [name=count]')
    count.clear()
    count.send_keys('3', Keys.ENTER)
    browser.until(lambda: browser.all('#result'))
    asked = {'flavor': flavor, 'count': 3}
    assert addresses.page('', flavor=flavor).removeprefix('?') in browser.path
    planned = cloud('/plan', **asked)
    assert planned['fits'] == 3
    hosts = {each['host'] for each in planned['placed']}
    seen = browser.text('#result')
    assert '3 of 3' in seen
    assert all(host in seen for host in hosts)
    weighed = [row.text.split() for row in browser.all('#weights tbody tr')]
    assert [row[0] for row in weighed] == [
        each['host'] for each in planned['explanations'][0]['top']
    ]
    assert weighed[0][0] == planned['placed'][0]['host']
    totals = [float(row.text) for row in browser.all('#weights td.total')]
    assert totals == sorted(totals, reverse=True)

    no_fit = addresses.no_fit(cloud)
    browser.open(addresses.page('/plan', **no_fit))
    changes = cloud('/plan', **no_fit)['changes']
    assert changes
    rows = browser.all('#changes tbody tr')
    for row, change in zip(rows, changes, strict=True):
        assert str(change['hosts']) in row.text

    browser.open(addresses.page('/plan', flavor='vcpus=1'))
    assert 'does not say ram' in browser.text('main')
    assert browser.one('#plan [name=flavor]').get_attribute('value') == 'vcpus=1'


def test_copy_button_confirms(browser, pages):
    browser.open(pages['decision'])
    button = browser.one('[data-copy]')
    said = button.text
    browser.run(RECORD_TEXTS, button)
    button.click()
    texts = browser.until(
        lambda: len(found := browser.run('return window.texts')) > 1 and found,
        'it does not go back',
    )
    assert texts[0] in ('Copied', 'Not allowed to copy')
    assert texts[1:] == [said]
    assert browser.complaints() == []


def test_hypothetical_changes_change_the_plan(browser, cloud):
    asked = {'flavor': 'm1.large', 'count': 1}
    picked = cloud('/plan', **asked)['placed'][0]['host']
    browser.open(addresses.page('/plan', **asked, what_if=f'disable {picked}'))
    head = browser.one('#result table').text
    assert picked not in [line.split()[0] for line in head.splitlines()]


def test_wrong_host_header_is_refused(browser_at, address):
    port = urlsplit(address).port
    elsewhere = browser_at(f'http://rebound.test:{port}')
    elsewhere.open('/')
    assert 'does not answer to this name' in elsewhere.text()
    assert elsewhere.all('main') == []
    assert elsewhere.status('/api/v1/hosts') == 403
    home = browser_at(f'http://localhost:{port}')
    home.open('/')
    assert home.status('/api/v1/hosts') == 200
