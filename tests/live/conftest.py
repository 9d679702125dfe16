# SPDX-License-Identifier: Apache-2.0
"""Servers for the session, daemons, and a look at what was left in placement."""

import contextlib
import itertools
import signal
import uuid

import pytest
import sqlalchemy as sa

from tests.faults.proxy import Proxy
from tests.functional.conftest import CELL_TIMEOUT_S
from tests.live import flow
from tests.live.cloud import Cloud, Servers, Split, built
from tests.live.daemon import BACKEND, MANAGE, OURS, Daemon, own_program
from tests.live.mixed_cloud import MixedCloud
from tests.live.peer import Client, Peer, preload_programs
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import ASIDE, FLAVORS, PeerCloud, PeerMade, scheduling
from tests.live.servers.keystone import Keystone
from tests.live.servers.mariadb import MariaDB
from tests.live.servers.placement import Placement
from tests.live.servers.postgresql import PostgreSQL
from tests.live.servers.preloaded import ours, placements
from tests.live.servers.process import Process, at_once, running, wait_until
from tests.live.servers.rabbitmq import RabbitMQ
from tests.live.wire import Wire
from tests.support.suite.own_logs import caplog, threads_of_others

__all__ = ['caplog', 'threads_of_others']

# Where placement tries again by itself after a conflict, it does so on an old snapshot
# of MariaDB's, and lets hosts be used beyond what they have.
ONE_TRY = '[placement]\nallocation_conflict_retry_count = 1'


def pytest_configure(config):
    """Declare the marks of this directory."""
    config.addinivalue_line(
        'markers', 'ours: what we do better than the peer; not run against the peer'
    )


def pytest_collection_modifyitems(config, items):
    """Leave out what only our daemon promises when another one is under test."""
    if OURS:
        return
    left_out = [item for item in items if item.get_closest_marker('ours')]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope='session')
def scratch(tmp_path_factory):
    """A directory for the session."""
    return tmp_path_factory.mktemp('live')


@pytest.fixture(scope='session')
def _broker_and_database(scratch):
    """Started at once, with what most tests want next."""
    servers = RabbitMQ(scratch), MariaDB(scratch)
    try:
        at_once([*(each.start for each in servers), ours, placements])
        yield servers
    finally:
        at_once(each.stop for each in servers)


@pytest.fixture(scope='session')
def rabbitmq(_broker_and_database):
    """A broker; `create_vhost()` gives the transport URL of a fresh corner of it."""
    return _broker_and_database[0]


@pytest.fixture(scope='session')
def mariadb(_broker_and_database):
    """A MariaDB server; `create_database(name)` gives a URL."""
    return _broker_and_database[1]


@pytest.fixture(scope='session')
def postgres():
    """A PostgreSQL server; `create_database(name)` gives a URL."""
    with running(PostgreSQL()) as server:
        yield server


@pytest.fixture(scope='session')
def keystone():
    """An identity service that lets everybody in."""
    with Keystone() as server:
        yield server


@pytest.fixture(scope='session')
def placement(scratch, mariadb, keystone):
    """The placement service over HTTP, with a client of it."""
    url = mariadb.create_database('placement')
    with Placement(scratch, url, ONE_TRY).serving(keystone) as server:
        yield server


@pytest.fixture(scope='session')
def peer(scratch):
    """The process of the peer's RPC client."""
    with contextlib.closing(Peer(scratch)) as client:
        yield client


@pytest.fixture(scope='session')
def peer_programs(scratch):
    """The peer's programs: `peer_programs.run('nova-manage', *words)`."""
    with contextlib.closing(preload_programs(scratch / 'peer-programs.log')) as made:
        yield made


@pytest.fixture(scope='session')
def servers(rabbitmq, mariadb, placement, keystone):
    """What most clouds share."""
    return Servers(rabbitmq, mariadb, placement, keystone)


@pytest.fixture(scope='session')
def cloud(scratch, peer, peer_programs, servers):
    """A cloud on MariaDB whose tables and cells the peer's nova-manage has made."""
    with built(PeerMade(scratch / 'cloud', servers, peer_programs)) as made:
        peer.wait_ready()
        yield made


@pytest.fixture(scope='session')
def peer_cloud(tmp_path_factory, servers, peer_programs):
    """The peer's programs, all at work but for a scheduler; two computes stand aside.

    Its hosts were mapped by the scheduler under test, which has ended.
    """
    directory = tmp_path_factory.mktemp('peer')
    with built(PeerCloud(directory, servers, peer_programs)) as made:
        made.start_peer()
        with scheduling(made, 'first'):
            if OURS:
                made.wait_mapped()
            else:
                made.discover_hosts()
            with contextlib.closing(PeerApi(made.port)) as api:
                for flavor in FLAVORS:
                    api.add_flavor(*flavor)
                for host in ASIDE:
                    api.set_service(host, status='disabled')
        yield made


@pytest.fixture(scope='module')
def peer_scheduler(peer_cloud):
    """The API of the peer's cloud, with the scheduler under test."""
    with (
        scheduling(peer_cloud, 'scheduler'),
        contextlib.closing(PeerApi(peer_cloud.port)) as api,
    ):
        yield api


@pytest.fixture
def peer_api(peer_scheduler, peer_cloud, eventually):
    """The API for one test; what the test made is deleted, and must be gone."""
    yield peer_scheduler
    peer_scheduler.delete_all()
    with contextlib.suppress(AssertionError):
        eventually(lambda: not peer_cloud.left_over(), 'nothing to be left')
    assert peer_cloud.left_over() == []


@pytest.fixture(scope='session')
def flow_cloud(tmp_path_factory, servers):
    """All our programs, running on four hosts in two cells.

    The mappings of cells have templates, so that each program reads them by the account
    of its own configuration.
    """

    def prepare(cloud):
        for cell in flow.CELLS:
            url = sa.make_url(cloud.urls[cell])
            template = f'{url.drivername}://{{username}}:{{password}}@{url.host}'
            template += f':{url.port}/{url.database}?charset=utf8'
            values = {'database_connection': template}
            cloud.update('api', 'cell_mappings', values, name=cell)

    directory = tmp_path_factory.mktemp('flow', numbered=False)
    names, hosts = [name for name, _ in flow.HOSTS], flow.fleet(*flow.HOSTS)
    with flow.running(directory, servers, names, hosts, prepare=prepare) as made:
        yield made


@pytest.fixture(scope='session')
def clouds_of_our_own(scratch, peer, servers, request):
    """Make, once each, a cloud by our novasched-manage on a named database server."""
    made = {}
    with contextlib.ExitStack() as stack:

        def cloud_on(name):
            if name not in made:
                own = servers._replace(database=request.getfixturevalue(name))
                manage = MANAGE or own_program('novasched-manage')
                cloud = Cloud(scratch / f'own-{name}', own, manage, prefix='own_')
                made[name] = stack.enter_context(built(cloud))
                peer.wait_ready()
            return made[name]

        yield cloud_on


@pytest.fixture(scope='session')
def second_mariadb(scratch):
    """A MariaDB server that may be paused and stopped."""
    directory = scratch / 'second'
    directory.mkdir()
    with running(MariaDB(directory)) as server:
        yield server


@pytest.fixture(scope='session')
def mixed_cloud(scratch, peer, servers, second_mariadb, postgres):
    """A cloud by our novasched-manage of three cells, each on a server of its own."""
    own = servers._replace(database=Split(servers.database, second_mariadb))
    manage = MANAGE or own_program('novasched-manage')
    cloud = MixedCloud(scratch / 'mixed', own, manage, prefix='mixed_')
    with built(cloud, postgres) as made:
        peer.wait_ready()
        yield made


class _Daemons:
    """Start daemons on virtual hosts of their own, and stop them at the end."""

    _numbers = itertools.count(1)

    def __init__(self, scratch, rabbitmq, peer):
        self._scratch = scratch
        self._rabbitmq = rabbitmq
        self._peer = peer
        self._running = []

    def start(self, cloud, *, wait=True, **sections):
        """Start a daemon on a conf with these sections; wait until it consumes."""
        number = next(self._numbers)
        general = sections.setdefault('DEFAULT', {})
        if 'transport_url' not in general:
            general['transport_url'] = self._rabbitmq.create_vhost()
        url = general['transport_url']
        general.setdefault('concurrency_backend', BACKEND)
        # What was freed is known at once, where a copy by the API hears of it after
        # seconds; and what was written, which may make another host the best one.
        # No cell is late, however busy the machine is.
        own = {
            'candidates': 'placement',
            'host_state_max_age': 0,
            'cell_timeout': CELL_TIMEOUT_S,
        }
        own |= sections.pop('novasched', {})
        path = self._scratch / f'daemon-{number}.conf'
        conf = cloud.write_conf(path, novasched=own, **sections)
        daemon = Daemon(
            conf,
            self._scratch / f'daemon-{number}.log',
            self._rabbitmq,
            url,
            Client(self._peer, url),
        )
        self._running.append(daemon)
        if wait:
            daemon.wait_ready()
        return daemon

    def stop(self):
        codes = at_once(daemon.process.stop for daemon in self._running)
        assert all(code is not None for code in codes)


@contextlib.contextmanager
def _stopped(cloud, scratch, rabbitmq, peer):
    """Yield what starts daemons, which are stopped in the end."""
    made = _Daemons(scratch, rabbitmq, peer)
    try:
        yield lambda on=cloud, **options: made.start(on, **options)
    finally:
        made.stop()


@pytest.fixture(scope='session')
def scheduler(cloud, scratch, rabbitmq, peer):
    """The daemon with stock settings that most tests share; leave it as it was."""
    with _stopped(cloud, scratch, rabbitmq, peer) as start:
        yield start(DEFAULT={'rpc_response_timeout': 3})


@pytest.fixture(scope='module')
def module_daemon(cloud, scratch, rabbitmq, peer):
    """Start daemons that live as long as the module: `start(**sections)`."""
    with _stopped(cloud, scratch, rabbitmq, peer) as start:
        yield start


@pytest.fixture
def daemon(cloud, scratch, rabbitmq, peer):
    """Start daemons that live as long as the test: `start(**sections)`."""
    with _stopped(cloud, scratch, rabbitmq, peer) as start:
        yield start


@pytest.fixture
def nova_scheduler(rabbitmq, eventually, peer_programs, tmp_path):
    """Start one at a queue beside others: `nova_scheduler(cloud, url, **sections)`."""
    running = []

    def start(cloud, url, **sections):
        general = {'transport_url': url, 'host': 'nova', 'state_path': str(tmp_path)}
        general |= sections.pop('DEFAULT', {})
        conf = cloud.write_conf(
            tmp_path / 'nova.conf',
            DEFAULT=general,
            scheduler={'workers': 1},
            **sections,
        )
        had = rabbitmq.queue(url, 'scheduler')[1]
        argv = ['nova-scheduler', '--config-file', conf]
        running.append(Process(argv, tmp_path / 'nova.log', fork_of=peer_programs))
        eventually(lambda: rabbitmq.queue(url, 'scheduler')[1] > had, 'nova', 60)

    yield start
    for each in running:
        each.end_by(signal.SIGKILL)


@pytest.fixture
def gate(placement):
    """A proxy in front of placement; see `endpoint_override`."""
    with running(Proxy(placement.url)) as server:
        yield server


@pytest.fixture
def account(placement):
    """The URL of placement's database for an account that may only read it."""
    url = sa.make_url(placement.database_url)
    engine = sa.create_engine(url, isolation_level='AUTOCOMMIT')
    with engine.connect() as connection:
        for statement in (
            "CREATE USER IF NOT EXISTS copier IDENTIFIED BY 'copier-secret'",
            f'GRANT SELECT ON {url.database}.* TO copier',
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()
    own = url.set(username='copier', password='copier-secret')
    return own.render_as_string(hide_password=False)


@pytest.fixture
def wire(scheduler, rabbitmq):
    """A connection to the shared daemon's queue for messages of any kind."""
    opened = Wire(rabbitmq, scheduler.url)
    yield opened
    opened.close()


class Claims:
    """The consumers that a test expects to find in placement when it ends."""

    def __init__(self):
        self.expected = set()

    def expect(self, *uuids):
        """Name consumers that shall hold something at the end of the test."""
        self.expected.update(uuids)

    def forget(self, *uuids):
        """Take names back."""
        self.expected.difference_update(uuids)


@pytest.fixture
def claims():
    """Say by `expect(*uuids)` who holds something when the test ends."""
    return Claims()


@pytest.fixture(autouse=True)
def _nothing_else_is_left(request, claims):
    """Compare placement's consumers with what the test expects, and delete them."""
    yield
    if 'placement' not in request.fixturenames:
        return
    placement = request.getfixturevalue('placement')
    left = placement.consumers()
    for consumer in left:
        placement.release(consumer)
    assert left == claims.expected


@pytest.fixture
def new_uuid():
    """Make instance uuids."""
    return lambda: str(uuid.uuid4())


@pytest.fixture
def eventually():
    """Poll a check to a deadline: `eventually(check, what)` gives what it gives."""
    return lambda check, what, timeout_s=60: wait_until(check, timeout_s, what)
