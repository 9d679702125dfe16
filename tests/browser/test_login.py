# SPDX-License-Identifier: Apache-2.0
"""Who may look at a console that is exposed: keystone and a policy say so."""

import pytest
from selenium.webdriver.support.expected_conditions import staleness_of

from tests.browser import console, keystone
from tests.support.records import console_answers
from tests.support.records.console_answers import GivenReader

PATHS = ('/', '/decisions', '/plan', '/capacity', '/hosts', '/health', '/api/v1/hosts')


@pytest.fixture(scope='module')
def identity():
    with keystone.Keystone() as made:
        yield made


@pytest.fixture(scope='module')
def exposed(identity, tmp_path_factory):
    """Where a console is that asks keystone."""
    conf = console.keystone_conf(tmp_path_factory.mktemp('console'), identity.url)
    row = {**console_answers.HOST_ROW, 'host': 'cmp-001'}
    hosts = {**console_answers.HOSTS, 'hosts': [row], 'total': 1, 'pages': 1}
    with console.served(GivenReader(hosts=hosts), conf) as address:
        yield f'http://127.0.0.1:{address.port}'


@pytest.fixture
def browser(browser_at, exposed):
    return browser_at(exposed)


def log_in(browser, name, password=keystone.PASSWORD):
    """Fill in the form of a browser, send it, and wait for the answer."""
    browser.open('/login')
    browser.one('main input[autocomplete=username]').send_keys(name)
    browser.one('main input[type=password]').send_keys(password)
    button = browser.one('main button[type=submit]')
    button.click()
    is_gone = staleness_of(button)
    browser.until(lambda: is_gone(browser.driver), 'no answer comes')


def cookies(browser):
    return {each['name']: each for each in browser.driver.get_cookies()}


def test_login_and_logout_with_keystone(browser, identity):
    for path in PATHS:
        browser.open(path)
        assert 'cmp-001' not in browser.text()
        assert browser.all('#hosts, #figures, #heatmap, #plan') == []
    browser.open('/hosts?zone=az1')
    browser.until(lambda: browser.path.startswith('/login'), 'no form is shown')
    assert browser.violations() == []

    log_in(browser, 'reader', 'a wrong one')
    assert browser.path.startswith('/login')
    assert browser.one('[role=alert]').text
    assert cookies(browser) == {}

    log_in(browser, 'reader')
    browser.until(lambda: not browser.path.startswith('/login'), 'no page is opened')
    (cookie,) = cookies(browser).values()
    assert (cookie['httpOnly'], cookie['secure']) == (True, True)
    assert cookie['sameSite'] == 'Strict'
    assert browser.run('return document.cookie') == ''
    browser.open('/hosts')
    assert 'cmp-001' in browser.text('#hosts')
    assert browser.status('/api/v1/hosts') == 200

    browser.one('form[action="/logout"] button').click()
    browser.until(lambda: browser.path.startswith('/login'), 'it does not log out')
    assert cookies(browser) == {}
    browser.open('/hosts')
    assert browser.all('#hosts') == []
    assert cookie['value'] not in identity.tokens


@pytest.mark.parametrize(
    ('name', 'may'), [('reader', True), ('admin', True), ('member', False)]
)
def test_reader_may_member_may_not(browser, name, may):
    log_in(browser, name)
    browser.open('/hosts')
    assert bool(browser.all('#hosts')) == may
    assert ('cmp-001' in browser.text()) == may
    if not may:
        assert browser.one('h1').is_displayed()
        assert 'role' in browser.text()
        assert browser.violations() == []
