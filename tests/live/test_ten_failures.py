# SPDX-License-Identifier: Apache-2.0
"""Ten boots that fail, each for another cause: what `novasched explain` says."""

import json
import os
import pathlib
import re
import time

import jsonschema
import pytest

from tests.live.cloud import Servers, Split
from tests.live.failing_cloud import (
    ORDINARY,
    TENANT,
    failing_cloud,
    flavor,
)
from tests.live.servers.keystone import Keystone
from tests.live.servers.placement import Placement
from tests.live.servers.process import wait_until

pytestmark = pytest.mark.ours

SCHEMA = pathlib.Path(__file__).parents[2] / 'docs/reference/record.schema.json'
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
EXPLAINED_S = 120
"""How long after a failure what is to be known of it must be there: a minute, as the
screen says, but other programs may keep the processors busy."""
FIRST_LINES = 5
SCREEN = 24
NOT_YET = 'Why is being found out: ask again in a minute.'
"""What is said of a placement that offers nothing, before it is known why."""

FAILURES = {
    'no-memory': (
        {'flavor': flavor('m1.xlarge', vcpus=2, memory_mb=14336)},
        ['10 have too little free MEMORY_MB (14336 wanted, at most 12288 on'],
        ['Free 2048 more on', 'or use a smaller flavor (at most 12288)'],
    ),
    'wrong-zone': (
        {'flavor': flavor('c1.large', vcpus=12), 'zone': 'az4'},
        ['10 are not in aggregate az4', '2 give a server at most 8 VCPU (12 wanted'],
        ['Use a smaller flavor (at most 8), or hosts', 'ask for another zone'],
    ),
    'disabled-hosts': (
        {'zone': 'az2'},
        ['10 are not in aggregate az2', '2 are disabled (e.g. off-'],
        ['openstack compute service set --enable off-', 'ask for another zone'],
    ),
    'missing-trait': (
        {'flavor': flavor('c1.avx', trait__HW_CPU_X86_AVX512F='required')},
        ['10 have no trait HW_CPU_X86_AVX512F'],
        ['Take it out of flavor and image, or let a host report it'],
    ),
    'pinned-cpus': (
        {'flavor': flavor('p1.six', vcpus=6, hw__cpu_policy='dedicated')},
        ['NUMATopologyFilter', 'not-enough-dedicated-cpus 2 (e.g. numa-'],
        ['4 of 6 dedicated CPUs', 'split the server over two (hw:numa_nodes=2)'],
    ),
    'huge-pages': (
        {'flavor': flavor('h1.pages', memory_mb=3072, hw__mem_page_size='1GB')},
        ['NUMATopologyFilter', 'not-enough-pages 2 (e.g. numa-'],
        ['2 of 3 pages of 1 GiB free', 'split the server over two (hw:numa_nodes=2)'],
    ),
    'pci-device': (
        {'flavor': flavor('g1.gpus', pci_passthrough__alias='gpu:3')},
        ['PciPassthroughFilter', 'pci-devices-missing: gpu', '2 of 3 free (e.g. numa-'],
        ['Free such devices, add hosts with some, or ask for fewer'],
    ),
    'anti-affinity': (
        {'zone': 'az1', 'group': 'apart'},
        [
            'ServerGroupAntiAffinityFilter',
            'group-limit: 1 member of the group, limit 1',
        ],
        ['Add hosts, raise max_server_per_host of the group'],
    ),
    'tenant': (
        {'flavor': ORDINARY, 'zone': 'az3'},
        [
            'AggregateMultiTenancyIsolation',
            f'aggregate az3 is for projects {TENANT}, not shop',
        ],
        ['Add the project to filter_tenant_id'],
    ),
}
"""What is booted, what the first lines must say, and what the remedies."""


@pytest.fixture(scope='module')
def keystone():
    """One of its own: by the shared one computes of other tests would find their way to
    the placement that is counted here."""
    with Keystone() as server:
        yield server


@pytest.fixture(scope='module')
def placement(tmp_path_factory, mariadb, keystone):
    """One of its own: hosts of other tests would be counted, too."""
    directory = tmp_path_factory.mktemp('placement')
    url = mariadb.create_database('placement_of_failures')
    with Placement(directory, url).serving(keystone) as server:
        yield server


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, rabbitmq, mariadb, second_mariadb, placement, keystone):
    """The cloud in which the boots fail."""
    directory = tmp_path_factory.mktemp('failing', numbered=False)
    databases = Split(mariadb, second_mariadb)
    servers = Servers(rabbitmq, databases, placement, keystone)
    with failing_cloud(directory, servers) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_else_is_left(cloud, placement):
    """No failure leaves anything in placement; the servers of the cloud stay."""
    yield
    assert placement.consumers() == set(cloud.booted)


@pytest.fixture
def dead_cell(cloud, second_mariadb):
    """The name of a cell whose database is stopped for as long as the test lasts."""
    second_mariadb.stop()
    yield 'cell2'
    second_mariadb.start()
    wait_until(lambda: cloud.runs('far', zone='az4'), 60, 'the cell to be back')


def failed(cloud, name, **order):
    """Boot a server that fails; give its uuid and the screen that explains it.

    Before it is known why, the screen must say so; right before that, there is none.
    """
    uuid = cloud.fail(name, **order)
    since = time.monotonic()
    while True:
        screen = cloud.novasched('explain', name)
        after_s = time.monotonic() - since
        assert after_s < EXPLAINED_S
        if screen.text.startswith('No decision on'):
            continue
        assert screen.code == 0, screen.errors
        if NOT_YET not in unwrapped(screen.text):
            keep(name, screen)
            return uuid, screen
        assert 'Remedy' not in screen.text


def unwrapped(text):
    """A text without the breaks of its lines."""
    return re.sub(r'\s+', ' ', text)


def keep(name, screen):
    if path := os.environ.get('NOVASCHED_SCREENS'):
        with open(path, 'a') as file:
            print(
                f'$ novasched explain {name}\n{screen.text}{screen.errors}', file=file
            )


def check(screen, causes, remedies):
    """The cause stands in the first lines, and what would have to change below."""
    lines = screen.text.splitlines()
    assert len(lines) <= SCREEN, screen.text
    assert 'NO VALID HOST' in lines[0]
    first = unwrapped('\n'.join(lines[1:FIRST_LINES]))
    assert first.startswith('Blocked by')
    for words in causes:
        assert words in first, screen.text
    remedy = unwrapped(screen.text.partition('\nRemedy')[2])
    for words in remedies:
        assert words in remedy, screen.text


def check_json(found):
    """It is as the schema says, and the numbers of hosts add up."""
    VALIDATOR.validate(found)
    assert found['result'] == 'unschedulable'
    before = found['stages'][0]['in']
    assert before == 12
    for stage in found['stages']:
        assert stage['in'] == before
        assert sum(r['count'] for r in stage['reasons']) == stage['in'] - stage['out']
        before = stage['out']
    assert before == 0


@pytest.mark.parametrize('name', FAILURES)
def test_the_first_screen_has_the_cause_and_what_would_have_to_change(cloud, name):
    order, causes, remedies = FAILURES[name]
    uuid, screen = failed(cloud, name, **order)
    assert '\nClaims' not in screen.text
    check(screen, causes, remedies)
    check_json(cloud.answer('explain', uuid, '--long'))


def test_a_cell_whose_database_is_stopped(cloud, dead_cell):
    uuid, screen = failed(cloud, 'far-3', zone='az4')
    causes = [f'unknown-hosts: {dead_cell}', 'does not answer, and has the 2 hosts']
    check(screen, causes, ['Bring the database of the cell back'])
    check_json(cloud.answer('explain', uuid, '--long'))
