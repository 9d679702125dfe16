# SPDX-License-Identifier: Apache-2.0
"""Decisions made on other controllers, asked for over RabbitMQ: two novasched, one
nova-scheduler, and a machine without any that asks."""

import contextlib
import json
import math
import os
import signal
import threading
import time
from uuid import uuid4

import oslo_messaging
import pytest
from oslo_config import cfg

from novasched.commands import sources
from novasched.decisions.reading import Criteria
from novasched.objects.context import RequestContext
from novasched.process import configuration
from novasched.rpc.transport import transport_from_conf
from novasched_lab.scheduler_client import SchedulerClient
from tests.live.daemon import own_program
from tests.live.servers.process import (
    Process,
    at_once,
    completed,
    free_port,
    wait_until,
)
from tests.live.servers.tcp_gate import TcpGate
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf

pytestmark = pytest.mark.ours

FIRST, SECOND, NOVA = 'inspected-1', 'inspected-2', 'inspected-nova'
START_S = 90
WAITED_S = 2
"""So long a scheduler is waited for that does not answer."""
SOON_S = 20
"""A busy machine takes longer; a call of nova's waits for a minute."""
REFUSED = 'Exception during message handling'


class Controllers:
    """The schedulers, and what asks each of them alone."""

    def __init__(self, cloud, directory, start, rabbitmq, placement):
        url = rabbitmq.create_vhost()
        self._rabbitmq = rabbitmq
        self._placement = placement
        self._cloud = cloud
        self._dir = directory
        self._start = start
        self.url = url
        self.transport = transport_from_conf(make_conf(), url)
        self.daemons = {}
        self._opened = []

    def start(self, host):
        """Start a novasched on a machine of its own."""
        self.daemons[host] = self._start(DEFAULT=self.options(host))
        self.wait_ready(host, self.daemons[host].process)

    def wait_ready(self, host, process):
        """Wait until a scheduler listens to its own queue."""

        def listens():
            queue = self._rabbitmq.queue(self.url, f'scheduler.{host}')
            return queue is not None and queue[1] > 0

        wait_until(listens, START_S, host, process)

    def options(self, host):
        state = self._dir / host
        state.mkdir(exist_ok=True)
        return {'host': host, 'state_path': str(state), 'transport_url': self.url}

    def write_conf(self, host, **sections):
        """Write the configuration of a machine, and give its path."""
        general = {**self.options(host), **sections.pop('DEFAULT', {})}
        path = self._dir / f'{host}.conf'
        return self._cloud.write_conf(path, DEFAULT=general, **sections)

    def client(self, host):
        """A client of the scheduler of a host alone."""
        to = oslo_messaging.Target(topic='scheduler', server=host)
        return SchedulerClient(make_conf(), self.transport, to)

    def decide(self):
        """Have each novasched decide on a server; give the servers by host.

        Nothing is left of them but what is recorded.
        """
        made = {host: str(uuid4()) for host in (FIRST, SECOND)}
        spec = factories.request(image={}, is_bfv=False)
        context = RequestContext(overwrite=False)
        for host, server in made.items():
            self.client(host).select_destinations(context, spec, [server])
            self._placement.release(server)
            own = self.decisions(self.write_conf(host))
            wait_until(
                lambda u=server, o=own: o.find(Criteria(server=u)), 20, 'the record'
            )
        return made

    def decisions(self, path, **arguments):
        """What a command on the machine of a configuration reads."""
        conf = cfg.ConfigOpts()
        for group, listed in sources.OPTIONS.items():
            conf.register_opts(listed, None if group == 'DEFAULT' else group)
        configuration.read(conf, ['--config-file', str(path)], 'nova-scheduler')
        self._opened.append(sources.sources(conf, **arguments))
        return self._opened[-1]

    def close(self):
        """Close what has asked."""
        at_once([self.transport.cleanup, *(each.close for each in self._opened)])


@pytest.fixture(scope='module')
def controllers(
    cloud, module_daemon, rabbitmq, placement, tmp_path_factory, peer_programs
):
    directory = tmp_path_factory.mktemp('controllers')
    made = Controllers(cloud, directory, module_daemon, rabbitmq, placement)
    made.start(FIRST)
    made.start(SECOND)
    words = ['nova-scheduler', '--config-file', made.write_conf(NOVA)]
    made.nova = Process(words, directory / f'{NOVA}.log', fork_of=peer_programs)
    try:
        made.wait_ready(NOVA, made.nova)
        yield made
    finally:
        at_once([made.nova.kill, made.close])


@pytest.fixture
def third(controllers):
    """The configuration of a machine without a scheduler."""
    return controllers.write_conf('inspected-3')


@pytest.fixture(scope='module')
def decided(controllers):
    """Servers that each novasched has decided on, by its host."""
    return controllers.decide()


@contextlib.contextmanager
def hung(process):
    """Stop all processes of a daemon; let them go on in the end."""
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGCONT)


def timed(call):
    started = time.monotonic()
    return call(), time.monotonic() - started


def workers_of(merged, uuid):
    return [
        head.worker.partition(':')[0] for head in merged.find(Criteria(server=uuid))
    ]


def took_of_first(merged, uuid):
    """Return how many seconds the answer of the first scheduler took; infinite if it
    did not come in time, as on a busy machine."""
    found, took_s = timed(lambda: workers_of(merged, uuid))
    return took_s if found == [FIRST] else math.inf


def wait_found(merged, uuid, within_s):
    """Wait until the first scheduler answers in time; no question takes longer."""

    def is_found():
        found, took_s = timed(lambda: workers_of(merged, uuid))
        assert took_s < within_s
        return found == [FIRST]

    wait_until(is_found, START_S, 'the answer of the first')


@pytest.fixture
def answers(controllers, decided, third):
    """Return whether a scheduler answers a new client in time."""

    def look(host):
        return workers_of(controllers.decisions(third), decided[host]) == [host]

    return look


def test_decisions_are_found_wherever_they_were_made(controllers, decided, third):
    def found():
        merged = controllers.decisions(third)
        heads = {host: merged.find(Criteria(server=u)) for host, u in decided.items()}
        late = {*decided}.intersection(merged.unanswered)
        return (merged, heads) if all(heads.values()) and not late else None

    merged, heads = wait_until(found, START_S, 'the answers of both in time')
    for host, uuid in decided.items():
        (head,) = heads[host]
        assert head.worker.partition(':')[0] == host
        record = merged.read(head.id)
        (server,) = record.body.servers
        assert (server.uuid, [server.host]) == (
            uuid,
            merged.servers_of([head.id])[head.id].hosts,
        )
    assert NOVA in merged.without_log
    assert f'{NOVA} runs nova-scheduler, which keeps no decisions' in merged.warnings


def test_nova_scheduler_is_not_asked_and_goes_on(controllers, decided, third):
    merged = controllers.decisions(third)
    for _ in range(3):
        assert merged.find(Criteria(server=decided[FIRST]))
    assert REFUSED not in controllers.nova.log
    pinged = controllers.client(NOVA).ping(RequestContext(overwrite=False), 7, 20)
    assert pinged == {'service': 'scheduler', 'arg': 7}


def test_a_machine_reads_its_own_decisions_from_its_files(controllers, decided):
    conf = controllers.write_conf(FIRST, DEFAULT={'transport_url': dead_broker()})
    local = controllers.decisions(conf, local_only=True)
    assert workers_of(local, decided[FIRST]) == [FIRST]
    assert local.find(Criteria(server=decided[SECOND])) == []
    assert local.unanswered == local.without_log == []


def dead_broker():
    return f'rabbit://guest:guest@127.0.0.1:{free_port()}/'


@pytest.fixture
def broker_gate(rabbitmq):
    """A closed gate in front of the broker. Threads that ask by it connect again and
    again, beside later tests, too, if it is not open in the end."""
    made = TcpGate(rabbitmq.port)
    made.refuse()
    yield made
    made.allow()

    def has_ended():
        return not any('(ask)' in thread.name for thread in threading.enumerate())

    wait_until(has_ended, START_S, 'the end of all questions')
    made.stop()


def test_the_broker_away_hides_the_others_alone(controllers, decided, broker_gate):
    url = broker_gate.url(controllers.url)
    conf = controllers.write_conf(FIRST, DEFAULT={'transport_url': url})
    merged = controllers.decisions(conf)
    found, took_s = timed(lambda: merged.find(Criteria(server=decided[FIRST])))
    assert len(found) == 1
    assert SECOND in merged.unanswered
    assert took_s < SOON_S


def test_the_database_away_hides_the_others_alone(controllers, decided):
    url = f'mysql+pymysql://nova@127.0.0.1:{free_port()}/nova'
    conf = controllers.write_conf(FIRST, database={'connection': url})
    merged = controllers.decisions(conf)
    assert workers_of(merged, decided[FIRST]) == [FIRST]
    assert merged.unanswered == ['other schedulers']
    (warning,) = merged.warnings
    assert warning.startswith('other schedulers are not known: ')


def test_hung_scheduler_does_not_delay_answers(controllers, decided, third, answers):
    controllers.decisions(third).find(
        Criteria(server=decided[FIRST])
    )  # all is imported now
    merged = controllers.decisions(third)
    with hung(controllers.daemons[SECOND].process):
        wait_found(merged, decided[FIRST], SOON_S)
        assert SECOND in merged.unanswered
        wait_until(
            lambda: took_of_first(merged, decided[FIRST]) < WAITED_S,
            START_S,
            'an answer that waits for nobody',
        )
        late = (
            f'{SECOND} did not answer within 2 s; decisions that it made are not seen'
        )
        assert late in merged.warnings
    wait_until(lambda: answers(SECOND), START_S, 'the answer of the one that hung')


FLAVOR = ('--flavor', 'vcpus=1,ram=512,disk=1')
COMMANDS = [['explain', '{server}'], ['decisions', 'list']]
OTHERS = [
    ['plan', 'boot', *FLAVOR],
    ['host', '{host}'],
    ['decisions', 'count', '--by', 'plugin'],
    ['plan', 'drain', '{host}'],
    ['why-not', '{host}', *FLAVOR],
    ['capacity', *FLAVOR],
]
EXHAUSTIVE = pytest.mark.exhaustive(
    'the same way out; JSON: test_plan, test_ten_failures'
)


@pytest.mark.parametrize(
    'words',
    [*COMMANDS, *(pytest.param(words, marks=EXHAUSTIVE) for words in OTHERS)],
    ids=lambda words: '-'.join(words[:2]),
)
def test_every_command_in_a_pipe_and_as_json(controllers, decided, words):
    conf = controllers.write_conf(FIRST)
    own = controllers.decisions(conf)
    (head,) = own.find(Criteria(server=decided[FIRST]))
    ((_, (host,)),) = own.servers_of([head.id]).values()
    asked = [word.format(server=decided[FIRST], host=host) for word in words]

    def run(*more):
        command = [own_program('novasched'), *asked, '--config-file', conf, *more]
        done = completed(command, timeout_s=60)
        assert done.returncode in (0, 3, 4), done.stderr
        assert '\033' not in done.stdout + done.stderr
        return done.stdout

    assert run().strip()
    found = json.loads(run('-f', 'json'))
    assert isinstance(found, list) or found['v'] == 1


def test_dead_scheduler_does_not_delay_answers(controllers, decided, third, answers):
    controllers.decisions(third).find(Criteria(server=decided[FIRST]))
    merged = controllers.decisions(third)
    controllers.daemons[SECOND].process.kill()
    try:
        wait_found(merged, decided[FIRST], SOON_S)
    finally:
        controllers.start(SECOND)
    assert SECOND in merged.unanswered
    wait_until(
        lambda: answers(SECOND), START_S, 'the answer of the one that was killed'
    )
