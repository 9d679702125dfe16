# SPDX-License-Identifier: Apache-2.0
"""Who may look at a console that asks keystone, over HTTP."""

import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from oslo_context import context
from oslo_utils import timeutils
from werkzeug.test import create_environ

from novasched import errors
from novasched.console import app, login, program, security, web_server
from novasched.console.identity import CACHED_S, TokenOfCookie, cached_s
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address
from tests.browser import keystone
from tests.live.servers.process import wait_until
from tests.support.records.console_answers import GivenReader

HTML = {'Accept': 'text/html,*/*;q=0.8'}
PATHS = ('/', '/decisions', '/hosts', '/health', '/nothing')
END_S = 20


def conf_of(path, text):
    """A configuration of one file."""
    path.write_text(text)
    return program.configure(
        [f'--config-file={path}', '--config-dir', str(path.parent)]
    )


@contextlib.contextmanager
def console(conf):
    """Serve a console that asks keystone; yield its URL."""
    settings = ConsoleSettings(listen=Address('127.0.0.1', 0), has_keystone=True)
    made = app.create(GivenReader())
    login.wrap(made, conf)
    security.install(made, settings)
    with web_server.served(made, settings) as where:
        yield f'http://127.0.0.1:{where.port}'


@pytest.fixture(scope='module')
def identity():
    with keystone.Keystone() as made:
        yield made


@pytest.fixture(scope='module')
def url(identity, tmp_path_factory):
    path = tmp_path_factory.mktemp('conf') / 'nova.conf'
    with console(conf_of(path, keystone.CONF.format(url=identity.url))) as found:
        yield found


def get(url, **headers):
    return requests.get(url, headers=headers, timeout=END_S, allow_redirects=False)


def log_in(url, name, password=keystone.PASSWORD, following='', **headers):
    """Send the form as a browser does; return the answer."""
    form = {'username': name, 'password': password, 'next': following}
    headers = headers or {'Sec-Fetch-Site': 'same-origin'}
    return requests.post(
        f'{url}/login', form, headers=headers, timeout=END_S, allow_redirects=False
    )


def log_out(url, cookie):
    """Send the form of a page as a browser does that has a cookie."""
    headers = {'Sec-Fetch-Site': 'same-origin', 'Cookie': cookie}
    return requests.post(
        f'{url}/logout', headers=headers, timeout=END_S, allow_redirects=False
    )


def token_of(url, name):
    return log_in(url, name).cookies[login.COOKIE]


@pytest.mark.parametrize('path', PATHS)
def test_a_browser_is_led_to_the_form_and_back(url, path):
    answer = get(f'{url}{path}', **HTML)
    assert answer.status_code == 303
    assert answer.headers['Location'].startswith('/login?next=')
    assert get(url + answer.headers['Location'], **HTML).status_code == 200


@pytest.mark.parametrize('path', [*PATHS, '/api/v1/hosts', '/metrics'])
@pytest.mark.parametrize('token', [{}, {'X-Auth-Token': 'none that there is'}])
def test_request_without_a_valid_token_gets_401(url, path, token):
    answer = get(f'{url}{path}', **token)
    assert (answer.status_code, answer.json()['status']) == (401, 401)
    assert 'X-Auth-Token' in answer.json()['error']
    assert answer.headers['WWW-Authenticate'].startswith('Keystone uri=')
    assert answer.headers['Cache-Control'] == 'no-store'


@pytest.mark.parametrize(
    ('name', 'status'), [('reader', 200), ('admin', 200), ('member', 403)]
)
def test_a_policy_says_who_may_look(url, name, status):
    token = token_of(url, name)
    for path in ('/hosts', '/api/v1/hosts'):
        answer = get(url + path, **{'X-Auth-Token': token})
        assert answer.status_code == status, path
        by_cookie = get(url + path, Cookie=f'{login.COOKIE}={token}', **HTML)
        assert by_cookie.status_code == status, path


def test_headers_of_an_identity_are_not_believed(url):
    forged = {
        'X-Identity-Status': 'Confirmed',
        'X-Roles': 'admin',
        'X-User-Id': 'x',
        'OpenStack-System-Scope': 'all',
    }
    assert get(f'{url}/api/v1/hosts', **forged).status_code == 401


def test_a_policy_file_is_honoured(identity, tmp_path):
    (tmp_path / 'policy.yaml').write_text('"novasched:read": "role:member"\n')
    said = f'[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n'
    conf = conf_of(tmp_path / 'a.conf', keystone.CONF.format(url=identity.url) + said)
    with console(conf) as url:
        for name, status in (('member', 200), ('reader', 403)):
            token = token_of(url, name)
            answer = get(f'{url}/hosts', **{'X-Auth-Token': token})
            assert answer.status_code == status, name


def test_the_cookie_is_for_this_console_alone(url):
    given = log_in(url, 'reader').headers['Set-Cookie']
    assert {'Secure', 'HttpOnly', 'SameSite=Strict', 'Path=/'} <= set(given.split('; '))


@pytest.mark.parametrize('token', ['a\\012b', 'a\\015', '\\377', 'a b', '\\000'])
def test_a_cookie_that_holds_no_token_is_as_none(url, token):
    cookie = f'{login.COOKIE}="{token}"'
    assert get(f'{url}/hosts', Cookie=cookie, **HTML).status_code == 303
    assert get(f'{url}/api/v1/hosts', Cookie=cookie).status_code == 401
    assert log_out(url, cookie).status_code == 303


@pytest.mark.parametrize(
    ('following', 'opened'),
    [
        ('/hosts?zone=az1', '/hosts?zone=az1'),
        ('//elsewhere.test/', '/'),
        ('/\\elsewhere.test/', '/'),
        ('/\t/elsewhere.test/', '/'),
        ('https://elsewhere.test/', '/'),
        ('javascript:alert(1)', '/'),
        ('/hosts\nX-Other: x', '/'),
        ('/hosts\r', '/'),
    ],
)
def test_a_login_opens_pages_of_this_console_alone(url, following, opened):
    answer = log_in(url, 'reader', following=following)
    assert (answer.status_code, answer.headers['Location']) == (303, opened)


@pytest.mark.parametrize(
    ('sent', 'status'),
    [
        ({'Origin': 'http://elsewhere.test'}, 403),
        ({'Origin': 'null'}, 403),
        ({'X-Other': 'x'}, 403),
        ({'Sec-Fetch-Site': 'cross-site', 'Origin': 'null'}, 403),
        ({'Sec-Fetch-Site': 'same-origin', 'Origin': 'null'}, 303),
        ({'Host': 'cloud.test', 'Origin': 'https://cloud.test'}, 303),
    ],
)
def test_a_form_counts_that_a_page_of_this_console_has_sent(url, sent, status):
    assert log_in(url, 'reader', **sent).status_code == status


def test_a_wrong_password_says_no_more_than_that(url):
    answers = [log_in(url, name, 'wrong') for name in ('reader', 'nobody')]
    assert [each.status_code for each in answers] == [401, 401]
    assert not any(each.cookies for each in answers)
    texts = [each.text.replace('nobody', 'reader') for each in answers]
    assert texts[0] == texts[1]


@pytest.mark.parametrize('password', [keystone.PASSWORD, 'wrong'])
@pytest.mark.parametrize('name', ['reader', 'admin'])
def test_a_password_is_sent_once(url, identity, name, password):
    before = identity.passwords
    log_in(url, name, password)
    # The service asks for a token of its own when it first validates one.
    assert identity.passwords == before + 1


def test_a_keystone_that_hangs_leaves_threads_for_others(identity, tmp_path):
    conf = conf_of(tmp_path / 'nova.conf', keystone.CONF.format(url=identity.url))
    with console(conf) as url, ThreadPoolExecutor(8) as clients:
        token = token_of(url, 'reader')
        assert get(f'{url}/hosts', **{'X-Auth-Token': token}).status_code == 200
        identity.may_answer.clear()
        try:
            waiting = [
                *(clients.submit(log_in, url, 'reader') for _ in range(2)),
                *(
                    clients.submit(get, f'{url}/hosts', **{'X-Auth-Token': str(n)})
                    for n in range(2)
                ),
            ]
            wait_until(lambda: identity.waiting == 4, END_S, 'clients that wait')
            answer = get(f'{url}/api/v1/hosts', **{'X-Auth-Token': token})
            assert answer.status_code == 503
            assert '4 clients are waiting for keystone' in answer.json()['error']
            assert answer.headers['Retry-After']
            assert get(f'{url}/hosts', Cookie='novasched_token=x', **HTML).text
            assert log_in(url, 'reader').status_code == 503
            for path in ('/login', '/static/console.css'):
                found = get(url + path, Cookie=f'{login.COOKIE}={token}')
                assert found.status_code == 200
        finally:
            identity.may_answer.set()
        assert {each.result().status_code for each in waiting} <= {303, 401, 503}
        assert get(f'{url}/hosts', **{'X-Auth-Token': token}).status_code == 200


@pytest.mark.parametrize('path', ['/static/../hosts', '/static/', '/login/x'])
def test_paths_without_a_token_show_no_page(url, path):
    forged = {'X-Identity-Status': 'Confirmed', 'X-Roles': 'admin', 'X-User-Id': 'x'}
    session = requests.Session()
    asked = requests.Request('GET', url, headers=forged).prepare()
    asked.url = url + path
    answer = session.send(asked, timeout=END_S, allow_redirects=False)
    assert answer.status_code == (404 if path == '/static/../hosts' else 401)
    assert 'cmp-' not in answer.text


@pytest.mark.parametrize('path', ['/hosts', '/login', '/logout', '/static/x'])
def test_no_header_of_a_client_says_who_it_is(path):
    seen = []
    application = TokenOfCookie(*[lambda environ, start: seen.append(environ)] * 2)
    names = (
        *('X-Identity-Status', 'X-Service-Identity-Status', 'X-Roles', 'X-User-Id'),
        *('X-Service-Roles', 'X-Service-User-Id', 'X-Is-Admin-Project', 'X-Role'),
        *('X-Tenant', 'X-Service-Catalog', 'X-Storage-Token', 'X-Forwarded-For'),
        *('OpenStack-System-Scope', 'X-Auth-Token', 'X'),
    )
    sent = {**dict.fromkeys(names, 'a'), 'X-Service-Token': 'no token'}
    application(create_environ(path, headers=sent), None)
    left = {'HTTP_X_AUTH_TOKEN', 'HTTP_X', 'HTTP_HOST'}
    assert {name for name in seen[0] if name.startswith('HTTP_')} == left


def test_logout_ends_the_token(url, identity):
    token = token_of(url, 'reader')
    answer = log_out(url, f'{login.COOKIE}={token}')
    assert (answer.status_code, answer.headers['Location']) == (303, '/login')
    assert token not in identity.tokens


def test_a_token_that_was_logged_out_is_refused_at_once(url):
    token = token_of(url, 'reader')
    by_cookie = {'Cookie': f'{login.COOKIE}={token}'}
    by_header = {'X-Auth-Token': token}
    assert get(f'{url}/hosts', **by_header).status_code == 200  # which is cached
    log_out(url, by_cookie['Cookie'])
    assert get(f'{url}/hosts', **by_header).status_code == 401
    assert get(f'{url}/hosts', **by_cookie, **HTML).status_code == 303
    assert get(f'{url}/hosts', **{'X-Storage-Token': token}).status_code == 401


def test_a_token_that_is_revoked_elsewhere_is_refused_within_a_minute(
    url, identity, monkeypatch
):
    token = {'X-Auth-Token': token_of(url, 'reader')}
    began = timeutils.utcnow_ts()

    def status(seconds_later):
        now = began + seconds_later
        monkeypatch.setattr(timeutils, 'utcnow_ts', lambda: now)
        return get(f'{url}/hosts', **token).status_code

    assert status(0) == 200
    del identity.tokens[token['X-Auth-Token']]
    assert [status(CACHED_S - 2), status(CACHED_S + 2)] == [200, 401]


@pytest.mark.parametrize(
    ('wanted', 'used'), [(300, CACHED_S), (10, 10), (-1, -1), (0, CACHED_S)]
)
def test_tokens_are_cached_for_a_minute_at_most(tmp_path, wanted, used):
    text = f'[keystone_authtoken]\ntoken_cache_time = {wanted}\n'
    assert cached_s(conf_of(tmp_path / 'nova.conf', text)) == used


def test_the_last_tokens_that_were_logged_out_are_remembered():
    ended = login.EndedTokens(most=2)
    for token in 'abac':
        ended.add(token)
    assert [each in ended for each in 'abc'] == [False, True, True]


class Users(logging.Handler):
    """Keeps log messages, with the user whose request they would be logged as."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        current = context.get_current()
        self.said.append((record.getMessage(), current and current.user_id))


def test_the_log_names_who_was_refused_and_no_other(url, caplog):
    caplog.set_level('INFO', login.LOG.name)
    of_admin, of_member = (
        {'X-Auth-Token': token_of(url, name)} for name in ('admin', 'member')
    )
    with ThreadPoolExecutor(8) as threads:  # each thread of the server serves the user
        list(threads.map(lambda _: get(f'{url}/hosts', **of_admin), range(32)))
    users = Users()
    login.LOG.addHandler(users)
    try:
        log_in(url, 'mallory', 'wrong')
        forged = {'X-Auth-Token': 'forged', 'X-Forwarded-For': '192.0.2.1'}
        get(f'{url}/hosts', **forged)
        get(f'{url}/hosts', **of_member)
    finally:
        login.LOG.removeHandler(users)
    assert users.said == [
        ('Keystone has refused the login of mallory from 127.0.0.1', None),
        ('A token is not valid any more, or was never: from 127.0.0.1', None),
        (
            'User id of member from 127.0.0.1 is not authorized: policy novasched:read',
            None,
        ),
    ]


@pytest.mark.parametrize('end', ['', '/', '/v3', '/v3/'])
def test_a_token_is_revoked_whatever_version_the_url_names(identity, tmp_path, end):
    root = identity.url.removesuffix('/v3')
    text = keystone.CONF.format(url=root + end)
    with console(conf_of(tmp_path / 'nova.conf', text)) as url:
        token = token_of(url, 'reader')
        log_out(url, f'{login.COOKIE}={token}')
    assert token not in identity.tokens


def test_unavailable_keystone_is_named_and_admits_no_user(tmp_path):
    with keystone.Keystone() as gone:
        text = keystone.CONF.format(url=gone.url)
    with console(conf_of(tmp_path / 'nova.conf', text)) as url:
        assert log_in(url, 'reader').status_code == 503
        answer = get(f'{url}/api/v1/hosts', **{'X-Auth-Token': 'a'})
        assert answer.status_code in (401, 503)
        assert answer.json()['error']


@pytest.mark.parametrize('text', ['', '[keystone_authtoken]\nauth_type = token\n'])
def test_incomplete_keystone_options_end_the_start(tmp_path, text):
    conf = conf_of(tmp_path / 'nova.conf', text)
    with pytest.raises(errors.OptionError, match='keystone_authtoken'):
        login.wrap(app.create(GivenReader()), conf)
