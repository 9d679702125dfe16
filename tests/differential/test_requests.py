# SPDX-License-Identifier: Apache-2.0
"""Requests of dry runs beside those that nova's API makes of the same orders."""

import json
import subprocess
from pathlib import Path

import pytest

from novasched import errors
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import request_spec
from novasched.objects.base import CHANGES, DATA, parse
from novasched.objects.flavor import Flavor
from tests.differential import orders
from tests.differential.primitives import primitive
from tests.live.peer import peer_program
from tests.support.tables.cases import cases


def stored(version, policy, cpus=(0, 1), **more):
    """Return the topology of a server with one cell, as nova kept it."""
    sizes = {'id': 0, 'cpuset': list(cpus), 'memory': 512, 'pagesize': None}
    cell = primitive('InstanceNUMACell', version, **sizes, cpu_policy=policy, **more)
    of = {'instance_uuid': orders.UUID, 'emulator_threads_policy': None}
    return primitive('InstanceNUMATopology', '1.3', cells=[cell], **of)


STORED = {
    'pinned, before dedicated CPUs stood apart': stored('1.4', 'dedicated'),
    'pinned, and fitted': stored('1.4', 'dedicated', cpu_pinning_raw={'0': 4, '1': 5}),
    'pinned, of an older release': stored('1.3', 'dedicated'),
    'shared, before dedicated CPUs stood apart': stored('1.4', 'shared'),
    'of no policy': stored('1.4', None),
    'pinned since': stored('1.6', 'dedicated', cpus=(), pcpuset=[0, 1]),
    'mixed since': stored('1.6', 'mixed', cpus=[0], pcpuset=[1]),
}


@pytest.fixture(scope='module')
def theirs():
    """Answers of nova, by the name of the order or of the stored topology."""
    named = {**orders.ACCEPTED, **orders.REFUSED}
    asked = {
        'orders': [orders.order(*each) for each in named.values()],
        'stored': list(STORED.values()),
    }
    run = subprocess.run(
        [peer_program('python'), Path(__file__).with_name('peer_requests.py')],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    return dict(zip(named, found['orders'], strict=True)) | dict(
        zip(STORED, found['stored'], strict=True)
    )


def ours(*given):
    """Return the request that dry runs make of an order."""
    order = orders.order(*given)
    alternatives = [json.loads(text) for text in order['aliases']]
    made = request_spec(
        order['uuid'],
        Flavor(**order['flavor']),
        order['image'],
        project_id='p',
        user_id='u',
        num_instances=order['count'],
        availability_zone=order['zone'],
        hints=order['hints'],
        aliases=PciAliases(alternatives, order['in_placement']),
    )
    return made.replaced(is_bfv=order['is_bfv']).obj_to_primitive()


def plain(found, *ids):
    """Return what both say alike: sets in order, uuids of requests by their number."""
    text = json.dumps(_plain(found))
    for number, each in enumerate(ids):
        text = text.replace(each, f'request {number}')
    return json.loads(text)


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name != CHANGES}
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((_plain(one) for one in value), key=repr)
    return value


def ids_of(request):
    """Return the uuids of the requests for devices, each by chance."""
    listed = request[DATA]['pci_requests'][DATA]['requests']
    return [each[DATA]['request_id'] for each in listed]


@cases('name', *((each, each) for each in orders.ACCEPTED))
def test_request_of_a_dry_run_is_the_one_of_the_api(theirs, name):
    made, expected = ours(*orders.ACCEPTED[name]), theirs[name]['request']
    assert plain(made, *ids_of(made)) == plain(expected, *ids_of(expected))


@cases('name', *((each, each) for each in orders.REFUSED))
def test_order_that_the_api_refuses_is_refused_in_its_words(theirs, name):
    with pytest.raises(errors.InvalidDemand) as refusal:
        ours(*orders.REFUSED[name])
    assert str(refusal.value) == theirs[name]['error'][1]


@cases('name', *((each, each) for each in STORED))
def test_stored_topology_has_the_dedicated_cpus_that_nova_reads(theirs, name):
    def cpus(cell):
        shared, own = (cell[DATA].get(each, ()) for each in ('cpuset', 'pcpuset'))
        return cell[DATA]['cpu_policy'], sorted(shared), sorted(own)

    made = parse(STORED[name]).as_read().obj_to_primitive()
    found, expected = (each[DATA]['cells'] for each in (made, theirs[name]['request']))
    assert list(map(cpus, found)) == list(map(cpus, expected))
    read = theirs[name]['topology'][DATA]['cells']
    assert list(map(cpus, read)) == list(map(cpus, expected))
