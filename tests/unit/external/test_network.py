# SPDX-License-Identifier: Apache-2.0
"""Ports and segments: requests, credentials, and answers of every shape."""

import pytest
import requests
import urllib3
from keystoneauth1 import token_endpoint

from novasched import errors
from novasched.external.network import (
    MOST_PAGES,
    NetworkClient,
    SubnetPage,
    parse_page,
    parse_port,
    parse_segments,
)
from novasched.objects.context import RequestContext
from novasched.resources.requirements import NetworkOrSubnet, Port
from tests.support.tables.cases import cases

P1, N1, S1 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(3))
PORT = {'port': {'id': P1, 'binding:vnic_type': 'normal', 'network_id': N1}}


def addresses(*subnets):
    ips = [{'subnet_id': subnet, 'ip_address': '10.0.0.7'} for subnet in subnets]
    return {'port': {**PORT['port'], 'fixed_ips': ips}}


@cases(
    'body, port',
    ('no addresses are told', PORT, Port('normal', N1, None)),
    ('no addresses', addresses(), Port('normal', N1, None)),
    ('the first', addresses(S1, 'S2'), Port('normal', N1, S1)),
    ('nothing is told', {'port': {}}, Port(None, None, None)),
    ('null', {'port': {'fixed_ips': None}}, Port(None, None, None)),
)
def test_a_port_is_looked_up_as_the_user(scripted, user, body, port):
    client, script = scripted((200, body))
    assert client.port(user, P1) == port
    assert script.asked == [('users', f'/v2.0/ports/{P1}')]
    assert script.headers[0]['X-OpenStack-Request-ID'] == 'req-1'


@cases(
    'answer, answers',
    ('it does', (200, {'ports': []}), True),
    ('credentials are refused', (401, {}), True),
    ('its database or keystone is away', (503, {}), False),
)
def test_a_look_needs_what_questions_need(scripted, answer, answers):
    client, script = scripted(answer)
    assert client.answers() == answers
    assert script.asked == [('own', '/v2.0/ports?fields=id&limit=1')]


class Renewed(token_endpoint.Token):
    """Has a new token each time that the last was of no use."""

    number = 1

    def get_token(self, session):
        return f'{self.token}-{self.number}'

    def invalidate(self):
        self.number += 1
        return True


def test_service_token_accompanies_the_user_token(scripted, user, nobody):
    service = token_endpoint.Token('http://unused', 'service')
    client, script = scripted((200, PORT), (200, PORT), service=service)
    client.port(user, P1)
    client.port(nobody, P1)
    assert [headers.get('X-Service-Token') for headers in script.headers] == [
        'service',
        None,
    ]
    assert [token for token, _ in script.asked] == ['users', 'own']


def test_expired_service_token_is_renewed(scripted, user):
    service = Renewed('http://unused', 'service')
    client, script = scripted((401, ''), (200, PORT), service=service)
    client.port(user, P1)
    tokens = [headers['X-Service-Token'] for headers in script.headers]
    assert tokens == ['service-1', 'service-2']


def test_without_a_token_a_port_is_looked_up_as_ourselves(scripted, nobody):
    client, script = scripted((200, PORT))
    client.port(nobody, P1)
    assert script.asked == [('own', f'/v2.0/ports/{P1}')]


SUBNET = NetworkOrSubnet('subnet', S1), f'/v2.0/subnets/{S1}'
SEGMENTS = f'/v2.0/subnets?network_id={N1}&fields=segment_id'
NETWORK = NetworkOrSubnet('network', N1), SEGMENTS


@cases(
    'own, token',
    ('as ourselves', True, 'own'),
    ('as the user without credentials of our own', False, 'users'),
)
@cases(
    'asked, body, found',
    ('subnet', SUBNET, {'subnet': {'segment_id': 'a'}}, {'a'}),
    ('subnet of none', SUBNET, {'subnet': {'segment_id': None}}, set()),
    ('no segments known', SUBNET, {'subnet': {}}, set()),
    (
        'network',
        NETWORK,
        {'subnets': [{'segment_id': 'a'}, {}, {'segment_id': 'b'}]},
        {'a', 'b'},
    ),
    ('no subnets', NETWORK, {'subnets': []}, set()),
)
def test_segments(scripted, user, own, token, asked, body, found):
    place, url = asked
    client, script = scripted((200, body), own=own)
    assert client.segments(user, place) == found
    assert script.asked == [(token, url)]


@pytest.mark.parametrize(
    ('answer', 'kind', 'text'),
    [
        ((404, {}), errors.PortNotFound, f'Port id {P1} could not be found.'),
        ((401, {}), errors.NetworkUnauthorized, 'Not authorized.'),
        ((403, 'no'), errors.NetworkForbidden, 'no'),
        ((500, 'oh'), errors.NetworkFailed, f'Failed to access port {P1}: 500-oh'),
        ((200, '<a>'), errors.NetworkFailed, f'Failed to access port {P1}: 200-<a>'),
        ((200, '[]'), errors.NetworkFailed, f'Failed to access port {P1}: 200-[]'),
        ((200, {}), errors.NetworkFailed, f'Failed to access port {P1}: 200-{{}}'),
        ((403, 'n' * 5000), errors.NetworkForbidden, 'n' * 1000),
        (
            (500, 'o' * 5000),
            errors.NetworkFailed,
            f'Failed to access port {P1}: 500-{"o" * 1000}',
        ),
        (requests.ReadTimeout('slow'), errors.NetworkFailed, None),
    ],
)
def test_failed_port_request_has_its_own_error(scripted, user, answer, kind, text):
    client, _ = scripted(answer)
    with pytest.raises(errors.NetworkFailed) as raised:
        client.port(user, P1)
    assert type(raised.value) is kind
    assert text in (None, str(raised.value))


def test_silent_network_service_is_logged(scripted, user, caplog):
    client, _ = scripted(requests.ReadTimeout('slow'))
    with pytest.raises(
        errors.NetworkFailed, match=f'Failed to access /v2.0/ports/{P1}'
    ):
        client.port(user, P1)
    assert 'The network service could not be asked: ' in caplog.text


@pytest.mark.parametrize('kind', ['subnet', 'network'])
def test_unreadable_segments_are_a_failure(scripted, user, kind):
    client, _ = scripted((404, ''))
    with pytest.raises(errors.NetworkFailed) as raised:
        client.segments(user, NetworkOrSubnet(kind, S1))
    assert str(raised.value) == f'Failed to access {kind} {S1}: 404-'


def test_request_without_a_usable_token_is_unauthorized(scripted, nobody):
    client, script = scripted(own=False)
    with pytest.raises(errors.NetworkUnauthorized):
        client.port(nobody, P1)
    assert script.asked == []


def test_there_is_no_network_service(user):
    client = NetworkClient(None)
    client.close()
    with pytest.raises(errors.NetworkUnauthorized):
        client.port(user, P1)


def test_a_catalog_without_a_network_service(scripted):
    context = RequestContext(auth_token='users', overwrite=False)
    client, script = scripted(own=False)
    with pytest.raises(errors.NetworkFailed):
        client.port(context, P1)
    assert script.asked == []
    client, script = scripted((200, PORT))
    client.port(context, P1)
    assert script.asked == [('users', f'/v2.0/ports/{P1}')]


def test_a_port_id_cannot_change_the_path(scripted, user):
    client, script = scripted((404, ''))
    with pytest.raises(errors.PortNotFound):
        client.port(user, '../agents?x')
    assert script.asked == [('users', '/v2.0/ports/..%2Fagents%3Fx')]


def page(segment, *links):
    return {'subnets': [{'segment_id': segment}], 'subnets_links': list(links)}


def test_all_pages_are_read_and_tokens_stay_with_the_service(scripted, user):
    query = f'network_id={N1}&fields=segment_id&marker=s'
    more = {'rel': 'next', 'href': f'http://elsewhere.test/v2.0/subnets?{query}'}
    back = {'rel': 'previous', 'href': 'http://elsewhere.test/'}
    client, script = scripted((200, page('a', more)), (200, page('b', back)))
    assert client.segments(user, NetworkOrSubnet('network', N1)) == {'a', 'b'}
    assert script.asked == [('own', SEGMENTS), ('own', f'/v2.0/subnets?{query}')]


def test_pages_without_end(scripted, user):
    link = {'rel': 'next', 'href': '?again'}
    client, script = scripted(*[(200, page('a', link))] * (MOST_PAGES + 1))
    with pytest.raises(errors.NetworkFailed, match='more than 1000 pages'):
        client.segments(user, NetworkOrSubnet('network', N1))
    assert len(script.asked) == MOST_PAGES


REFUSED = requests.ConnectionError(
    urllib3.exceptions.MaxRetryError(
        None, '/', urllib3.exceptions.NewConnectionError(None, 'refused')
    )
)
BROKEN = requests.ConnectionError(
    urllib3.exceptions.ProtocolError('Connection aborted.')
)


@cases(
    'problem, attempts',
    ('a refused connection is tried again', REFUSED, 4),
    ('a broken one is not', BROKEN, 1),
    ('nor what nobody explains', requests.ConnectionError(), 1),
    ('answering took long enough', requests.ReadTimeout(), 1),
    ('connecting took long enough', requests.ConnectTimeout(), 1),
)
def test_only_a_refused_connection_is_tried_again(scripted, user, problem, attempts):
    client, script = scripted(*[problem] * 4, connect_retries=3)
    with pytest.raises(errors.NetworkFailed):
        client.port(user, P1)
    assert len(script.asked) == attempts
    assert script.slept == [0.5, 1.0, 2.0][: attempts - 1]


def test_the_delay_of_the_option_comes_first(scripted, user):
    client, script = scripted(
        REFUSED, REFUSED, (200, PORT), connect_retries=3, connect_retry_delay=7.0
    )
    assert client.port(user, P1) == Port('normal', N1, None)
    assert script.slept == [7.0, 7.0]


READERS = {'port': parse_port, 'subnet': parse_segments, 'subnets': parse_page}


@pytest.mark.parametrize(
    'body',
    [
        {'port': None},
        {'port': []},
        {'port': [1]},
        {'port': {'fixed_ips': 'abc'}},
        {'port': {'fixed_ips': {'a': 1}}},
        {'port': {'fixed_ips': [1]}},
        {'port': {'fixed_ips': [{'subnet_id': {'a': 1}}]}},
        {'port': {'binding:vnic_type': []}},
        {'port': {'network_id': 5}},
        {'subnet': [1]},
        {'subnet': {'segment_id': 5}},
        {'subnets': {'a': 1}},
        {'subnets': ['x']},
        {'subnets': [{'segment_id': {'a': 1}}]},
        {'subnets': [], 'subnets_links': ['next']},
        {'subnets': [], 'subnets_links': [{'rel': 'next'}]},
        {'subnets': [], 'subnets_links': [{'rel': 'next', 'href': 'http://n/v2.0'}]},
    ],
    ids=str,
)
def test_malformed_answer_is_refused(body):
    read = next((READERS[name] for name in READERS if name in body), parse_port)
    with pytest.raises(ValueError, match=r'\w'):
        read(body)


@pytest.mark.parametrize('body', [None, [], 'x', 1, {}], ids=str)
@pytest.mark.parametrize('read', [parse_port, parse_segments, parse_page])
def test_answer_of_another_kind_is_refused(body, read):
    with pytest.raises(ValueError, match=r'\w'):
        read(body)


LINK = {'rel': 'next', 'href': 'http://elsewhere/v2.0/subnets?limit=1&marker=a'}


@cases(
    'links, query',
    ('there is more', [LINK], 'limit=1&marker=a'),
    ('there was more', [{**LINK, 'rel': 'previous'}], None),
    ('no links', [], None),
    ('null', None, None),
    ('no list', {'rel': 'next'}, None),
)
def test_pages(links, query):
    body = {'subnets': [{'segment_id': 'a'}], 'subnets_links': links}
    assert parse_page(body) == SubnetPage(frozenset('a'), query)
