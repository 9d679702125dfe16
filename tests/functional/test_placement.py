# SPDX-License-Identifier: Apache-2.0
"""Our client and the real placement; and connections that break."""

import contextlib
import http.server
import json
import socket
import threading
import time
import uuid

import pytest
from oslo_config import cfg

from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec
from novasched.placement import session
from novasched.placement.client import PlacementClient
from novasched.ports import (
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    QueryFailed,
)
from novasched.resources import PrefilterContext, build_query, prefilters
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.conftest import Faults, put_between
from tests.functional.endpoints import HERE
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

QUERY = 'limit=1000&resources=MEMORY_MB%3A512%2CVCPU%3A2'


@pytest.fixture
def client(adapter):
    return PlacementClient(adapter)


@pytest.fixture
def context():
    return RequestContext(overwrite=False)


@pytest.fixture
def nodes(adapter):
    """Return the uuids of two providers of 4 VCPU each."""
    inventories = {'VCPU': Inventory(4), 'MEMORY_MB': Inventory(4096)}
    providers = [
        Provider(str(uuid.uuid4()), name, inventories) for name in ('one', 'two')
    ]
    provide(adapter, providers)
    return [provider.uuid for provider in providers]


@pytest.fixture
def candidate(client, context, nodes):
    """Return a function from the number of a node to the candidate on it."""

    def of(number):
        found = client.candidates(context, QUERY)
        (one,) = [c for c in found.requests if nodes[number] in c['allocations']]
        return one

    return of


@pytest.fixture
def claim(client, context, candidate):
    """Return a function that claims on a node, by its number."""

    def run(consumer, number, adds=False):
        wanted = ClaimRequest(consumer, candidate(number))
        return client.claim(context, wanted, '1.36', 'project', 'user', adds)

    return run


@pytest.fixture
def held(adapter):
    """Return a function that tells the VCPUs held by a consumer, by provider."""

    def run(consumer):
        answer = adapter.get(f'/allocations/{consumer}', microversion='1.28').json()
        return {
            provider: allocation['resources'].get('VCPU')
            for provider, allocation in answer['allocations'].items()
        }

    return run


@pytest.fixture
def consumer():
    return str(uuid.uuid4())


def test_candidates_are_placements(client, context, nodes):
    found = client.candidates(context, QUERY)
    assert isinstance(found, Candidates)
    assert found.version == '1.36'
    assert {tuple(one['mappings']['']) for one in found.requests} == {
        (node,) for node in nodes
    }


def test_our_query_is_understood(client, context, nodes):
    flavor = Flavor(vcpus=2, memory_mb=512, root_gb=0, ephemeral_gb=0, swap=0)
    request = RequestSpec(flavor=flavor)
    conf = make_conf()
    facts = PrefilterContext(minimum_compute_version=74)
    added = prefilters.run(prefilters.from_conf(conf), request, facts)
    query = build_query(request, added, [nodes[0]], 1000)
    found = client.candidates(context, query.encode())
    assert [set(one['allocations']) for one in found.requests] == [{nodes[0]}]


@cases(
    'query, text',
    ('no resources', 'resources=', 'resources'),
    ('a trait', 'resources=VCPU%3A1&required=NONSENSE', 'NONSENSE'),
)
def test_a_bad_query_fails(client, context, nodes, query, text):
    failed = client.candidates(context, query)
    assert isinstance(failed, QueryFailed)
    assert failed.status == 400
    assert text in failed.text


def test_nothing_fits(client, context, nodes):
    found = client.candidates(context, 'resources=VCPU%3A5')
    assert found == Candidates([], '1.36')


def test_claim_and_undo(client, context, nodes, claim, held, consumer):
    claimed = claim(consumer, 0)
    assert claimed == Claimed(consumer)
    assert held(consumer) == {nodes[0]: 2}
    assert client.undo(context, [claimed]) == {}
    assert held(consumer) == {}
    assert client.undo(context, [claimed]) == {}


def test_a_claim_is_one_request(adapter, claim, consumer):
    requests_ = put_between(adapter, Faults)
    claim(consumer, 0)
    assert requests_.seen == {'GET': 1, 'PUT': 1}


def test_a_second_claim_adds_and_undo_restores(
    client, context, nodes, claim, held, consumer
):
    claim(consumer, 0)
    second = claim(consumer, 1, adds=True)
    assert held(consumer) == {nodes[0]: 2, nodes[1]: 2}
    client.undo(context, [second])
    assert held(consumer) == {nodes[0]: 2}


def test_no_room(client, context, nodes, candidate, claim, held, consumer):
    stale = candidate(0)
    claim(str(uuid.uuid4()), 0)
    claim(str(uuid.uuid4()), 0)
    refused = client.claim(
        context, ClaimRequest(consumer, stale), '1.36', 'project', 'user'
    )
    assert isinstance(refused, ClaimRefused)
    assert refused.status == 409
    assert 'Unable to allocate inventory' in refused.text
    assert held(consumer) == {}


def test_no_project(client, context, candidate, consumer):
    wanted = ClaimRequest(consumer, candidate(0))
    refused = client.claim(context, wanted, '1.36', None, 'user')
    assert isinstance(refused, ClaimRefused)
    assert refused.status == 400


class Forgetful(http.server.ThreadingHTTPServer):
    """Keeps connections, but closes each at its third request, without a word."""

    daemon_threads = False

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.sockets = []
        self.agents = set()

    @property
    def connections(self):
        return len(self.sockets)

    def hang_up(self):
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def setup(self):
        super().setup()
        self.server.sockets.append(self.connection)
        self.seen = 0

    def do_GET(self):
        body = {'allocation_requests': [], 'provider_summaries': {}}
        self._answer(json.dumps(body).encode())

    def _answer(self, body):
        self.server.agents.add(self.headers['User-Agent'])
        self.seen += 1
        if self.seen == 3:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def forgetful():
    with Forgetful() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.hang_up()


@contextlib.contextmanager
def configured(tmp_path, **options):
    """Make a client as the service does, from the options of a nova.conf."""
    path = tmp_path / 'nova.conf'
    lines = [f'{name} = {value}' for name, value in options.items()]
    path.write_text('\n'.join(['[placement]', *lines]))
    conf = cfg.ConfigOpts()
    for group, opts in session.OPTS.items():
        conf.register_opts(opts, group)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    adapter = session.from_conf(conf)
    with contextlib.closing(adapter.session.session):
        yield adapter


def test_connections_are_kept_and_broken_ones_replaced(forgetful, context, tmp_path):
    url = f'http://127.0.0.1:{forgetful.server_port}'
    with configured(tmp_path, auth_type='none', endpoint_override=url) as adapter:
        client = PlacementClient(adapter)
        found = [client.candidates(context, 'resources=VCPU:1') for _ in range(4)]
        nothing = Candidates([], '1.36')
        assert found == [nothing] * 4
        assert forgetful.connections == 2
    (agent,) = forgetful.agents
    assert agent.startswith('novasched')


def test_a_look_is_short_where_keystone_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr('novasched.http.PROBE_S', 0.2)
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server((HERE, 0)))
        url = f'http://{HERE}:{silent.getsockname()[1]}'
        own = {'auth_url': f'{url}/v3', 'username': 'nova', 'password': 'x'}
        options = {'auth_type': 'password', **own, 'timeout': 60}
        adapter = stack.enter_context(configured(tmp_path, **options))
        before = time.monotonic()
        assert not PlacementClient(adapter).answers()
        assert time.monotonic() - before < 10
