# SPDX-License-Identifier: Apache-2.0
"""Two workers record a history while computes build; every decision is made again."""

import contextlib
import itertools
import json
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import oslo_messaging
import pytest

from novasched.history import reading
from novasched.history.reading import EndedInstance, ProviderChange
from novasched_lab.scheduler_client import TARGET, ClientSerializer, SchedulerClient
from tests.faults.resources import children
from tests.live.daemon import own_program
from tests.live.flow import CELLS, running
from tests.live.flow_fleet import fleet, names
from tests.live.servers.process import completed, wait_until
from tests.support.clouds.configuration import make_conf

REQUESTS = int(os.environ.get('NOVASCHED_HISTORY_REQUESTS', '60'))
"""More are a longer proof; for thousands, add ``-o faulthandler_timeout=0``."""
MORE = 300
"""Requests while a worker is killed, at most."""
AT_ONCE = 6
BUILT = 4
HELD = 4
"""So many servers of each client hold their claim."""
START_S = 60
GONE_S = 5
"""A request is given up that the killed worker had, unless another takes it."""
NO_HOST = oslo_messaging.RemoteError, oslo_messaging.MessagingTimeout
PLAIN = 6
ALIAS = {'name': 'nic', 'vendor_id': '8086', 'product_id': '1572'}
FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'NUMATopologyFilter',
    'PciPassthroughFilter',
)
ORDERS = (
    *[(1, {})] * 8,
    (1, {'vcpus': 4, 'memory_mb': 4096}),
    (1, {'extra_specs': {'hw:cpu_policy': 'dedicated'}}),
    (1, {'extra_specs': {'pci_passthrough:alias': 'nic:1'}}),
    (3, {}),
    (2, {'policy': 'anti-affinity'}),
    (1, {'vcpus': 64}),
)

pytestmark = pytest.mark.ours


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp('history') / 'of-workers'


@pytest.fixture(scope='module')
def crowd(tmp_path_factory, servers, directory):
    with running(
        tmp_path_factory.mktemp('recorded', numbered=False),
        servers,
        names(CELLS, PLAIN),
        fleet(CELLS, PLAIN),
        CELLS,
        scheduler={'workers': 2},
        filter_scheduler={'enabled_filters': ','.join(FILTERS)},
        pci={'alias': json.dumps(ALIAS)},
        novasched={'history_dir': str(directory)},
    ) as made:
        yield made


def ask(crowd, placement, number, requests):
    """Have so many requests scheduled, and give up their claims after a while."""
    conf = make_conf(rpc_response_timeout=GONE_S)
    client = SchedulerClient(conf, crowd.transport)
    chance, held = random.Random(number), []
    for _ in range(requests):
        count, order = chance.choice(ORDERS)
        uuids = [str(uuid4()) for _ in range(count)]
        request, *_ = crowd.requests(uuids, **order)
        with contextlib.suppress(*NO_HOST):
            client.select_destinations(crowd.context, request, uuids)
            held += uuids
        while len(held) > HELD:
            placement.release(held.pop(0))
    for uuid in held:
        placement.release(uuid)


def say_that_it_ends(crowd, uuid):
    """Tell all schedulers that an instance leaves its host, as nova-compute does."""
    client = oslo_messaging.get_rpc_client(
        crowd.transport,
        TARGET(version='4.2', fanout=True),
        serializer=ClientSerializer(),
    )
    host = crowd.instance(uuid).host
    arguments = {'host_name': host, 'instance_uuid': uuid}
    client.cast(crowd.context, 'delete_instance_info', **arguments)


def ask_at_once(crowd, placement, requests, meanwhile):
    """Have requests scheduled by several clients; return their number."""
    each = requests // AT_ONCE
    with ThreadPoolExecutor(AT_ONCE) as clients:
        asking = [
            clients.submit(ask, crowd, placement, number, each)
            for number in range(AT_ONCE)
        ]
        meanwhile()
        for one in asking:
            one.result()
    return each * AT_ONCE


def check(directory, *words):
    """Run the command; return its answer."""
    argv = [own_program('novasched'), 'lab', 'check', directory, '-f', 'json', *words]
    ran = completed(argv, timeout_s=3600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def requests_in(directory):
    """Return how many requests are written."""
    lines = itertools.chain(*map(reading.Lines, reading.files_of(directory)))
    return sum(line.startswith(b'{"request"') for line in lines)


@pytest.mark.scenario('F54')
@pytest.mark.exhaustive('a cloud of its own; properties and unit tests have histories')
def test_history_of_two_workers_is_equal_until_one_is_killed(
    crowd, placement, directory, claims
):
    built = [str(uuid4()) for _ in range(BUILT)]

    def build():
        crowd.boot(built)
        for uuid in built:
            assert crowd.ended(uuid).vm_state == 'active'
            say_that_it_ends(crowd, uuid)
        crowd.delete_all()

    asked = ask_at_once(crowd, placement, REQUESTS, build) + 1
    wait_until(
        lambda: requests_in(directory) == asked, START_S, 'all of them', every_s=0.5
    )
    assert len(reading.files_of(directory)) == 2
    answer = check(directory)
    assert (answer['requests'], answer['gaps']) == (asked, [])
    assert answer['decisions'] > answer['requests'] - answer['refused']
    items = [*reading.read(directory)]
    changes = [each.providers for each in items if isinstance(each, ProviderChange)]
    assert len(set().union(*changes)) == len(names(CELLS, PLAIN))
    ended = {each.uuid for each in items if isinstance(each, EndedInstance)}
    assert ended == {*built}

    victim = children(crowd.processes['scheduler'].pid)[0]

    more = min(REQUESTS, MORE)

    def kill():
        enough = asked + more // 2
        wait_until(lambda: requests_in(directory) > enough, START_S, 'some requests')
        os.kill(victim, signal.SIGKILL)

    ask_at_once(crowd, placement, more, kill)
    wait_until(lambda: len(reading.files_of(directory)) == 3, START_S, 'a new worker')
    answer = check(directory)
    assert answer['requests'] > asked + more // 2
    (gap,) = answer['gaps']
    assert f'-{victim}-' in gap
    assert gap.endswith(reading.KILLED)
    claims.expect(*placement.consumers())  # of the killed worker
