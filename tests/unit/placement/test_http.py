# SPDX-License-Identifier: Apache-2.0
"""Requests to placement, and what is known when no answer comes."""

import pytest
import requests
import urllib3
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import token_endpoint

from novasched import http
from novasched.objects.context import RequestContext
from novasched.placement.session import NoAnswer, ask
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

BROKEN = requests.ConnectionError(
    urllib3.exceptions.ProtocolError('Connection aborted.')
)
REFUSED = requests.ConnectionError(
    urllib3.exceptions.MaxRetryError(
        None, '/', urllib3.exceptions.NewConnectionError(None, 'refused')
    )
)


def test_headers(scripted, context):
    adapter, script = scripted((200, {}))
    ask(adapter, context, 'PUT', '/allocations/c', '1.36', {'a': 1}, timeout_s=5.0)
    headers = script.requests[0].headers
    assert script.asked == ['PUT /allocations/c']
    assert script.body(0) == {'a': 1}
    assert script.options[0]['timeout'] == 5.0
    assert headers['OpenStack-API-Version'] == 'placement 1.36'
    assert headers['X-OpenStack-Request-ID'] == 'req-own'
    assert headers['X-Auth-Token'] == 'token'
    assert headers['Accept'] == headers['Content-Type'] == 'application/json'


def test_the_global_request_id_comes_first(scripted):
    context = RequestContext(
        request_id='req-own', global_request_id='req-global', overwrite=False
    )
    adapter, script = scripted((200, {}))
    ask(adapter, context, 'GET', '/', None)
    assert script.requests[0].headers['X-OpenStack-Request-ID'] == 'req-global'
    assert 'OpenStack-API-Version' not in script.requests[0].headers
    assert script.options[0]['timeout'] == 60


@pytest.mark.parametrize('status', [204, 404, 409, 500, 503])
def test_every_status_is_an_answer(scripted, context, status):
    adapter, _ = scripted((status, ''))
    answer = ask(adapter, context, 'DELETE', '/allocations/c', None)
    assert answer.status_code == status


@cases(
    'problem, sent',
    ('refused', REFUSED, False),
    ('connecting took long', requests.ConnectTimeout('slow'), False),
    ('answering took long', requests.ReadTimeout('slow'), True),
    ('the connection broke', BROKEN, True),
    ('something unknown', requests.ConnectionError(), True),
    ('half an answer', requests.exceptions.ChunkedEncodingError('half'), True),
    ('nobody knows the way', ksa.EndpointNotFound(), False),
    ('nobody says who we are', ksa.MissingAuthPlugin(), False),
)
def test_no_answer(scripted, context, problem, sent):
    adapter, script = scripted(problem)
    answer = ask(adapter, context, 'PUT', '/allocations/c', '1.36', {})
    assert isinstance(answer, NoAnswer)
    assert answer.sent == sent
    assert len(script.asked) == 1


@cases(
    'method, problem, requests_',
    ('a broken connection may be an idle one', 'GET', BROKEN, 2),
    ('a refused one is not', 'GET', REFUSED, 1),
    ('the wait was long enough', 'GET', requests.ReadTimeout(), 1),
    ('what changes something is not repeated', 'DELETE', BROKEN, 1),
)
def test_repeated(scripted, context, method, problem, requests_):
    adapter, script = scripted(problem, problem)
    answer = ask(adapter, context, method, '/allocations/c', None)
    assert isinstance(answer, NoAnswer)
    assert len(script.asked) == requests_


class Catalog(token_endpoint.Token):
    """Credentials whose catalog lacks placement until it is fetched again."""

    fetched_again = False

    def get_endpoint(self, *args, **kwargs):
        return self.endpoint if self.fetched_again else None

    def invalidate(self):
        self.fetched_again = True
        return True


def test_a_catalog_without_placement_is_fetched_again(scripted, context):
    adapter, _ = scripted((200, {}))
    adapter.auth = Catalog(adapter.endpoint_override, 'token')
    adapter.endpoint_override = None
    assert not ask(adapter, context, 'GET', '/', None).sent
    assert ask(adapter, context, 'GET', '/', None).status_code == 200


@pytest.mark.parametrize('answer', [BROKEN, (503, '')])
def test_slow_failure_is_not_asked_again(scripted, context, answer):
    clock = FakeClock()
    adapter, script = scripted()

    def hang(_):
        clock.advance(3.0)
        return answer

    script.answer = hang
    found = ask(adapter, context, 'GET', '/', None, clock=clock)
    assert (
        found.is_unavailable
        if isinstance(found, NoAnswer)
        else found.status_code == 503
    )
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ('problem', 'text'),
    [
        (ksa.ConnectFailure(), 'Placement API service is not responding.'),
        (ksa.EndpointNotFound(), 'The placement API endpoint was not found.'),
        (
            ksa.MissingAuthPlugin(),
            'No authentication information found for placement API.',
        ),
        (ksa.Unauthorized(), 'Placement service credentials do not work.'),
        (ksa.DiscoveryFailure(), 'Discovering suitable URL for placement API failed.'),
    ],
)
def test_warnings_are_novas(scripted, context, caplog, problem, text):
    adapter, _ = scripted(problem, problem)
    ask(adapter, context, 'DELETE', '/allocations/c', None)
    assert [r.message for r in caplog.records if r.levelname == 'WARNING'] == [text]


CUT = requests.exceptions.ChunkedEncodingError('Connection broken')


@cases(
    'answers, status',
    ('a gateway had no server', [(503, ''), (200, {})], 200),
    ('a gateway lost its server', [(502, ''), (200, {})], 200),
    ('nor has it one later', [(503, ''), (503, '')], 503),
    ('the answer broke off', [CUT, (200, {})], 200),
    ('the connection was an idle one', [BROKEN, (200, {})], 200),
    ('a word of placement', [(500, '')], 500),
    ('a gateway that has waited already', [(504, '')], 504),
)
def test_read_is_repeated_after_a_gateway_failure(scripted, context, answers, status):
    adapter, script = scripted(*answers)
    assert ask(adapter, context, 'GET', '/', None).status_code == status
    assert script.answers == []


@pytest.mark.parametrize('method', ['GET', 'PUT', 'POST'])
@pytest.mark.parametrize('status', [204, 401])
def test_request_with_an_expired_token_is_sent_again(scripted, context, method, status):
    adapter, script = scripted((401, ''), (status, ''))
    assert ask(adapter, context, method, '/', None).status_code == status
    assert script.answers == []


def test_logs_get_the_begin_of_what_is_long(scripted, context):
    adapter, _ = scripted((500, 'é' * 5000))
    found = http.excerpt(ask(adapter, context, 'PUT', '/', None))
    assert found == 'é' * 500
