# SPDX-License-Identifier: Apache-2.0
"""What the command host shows of a host and of its servers."""

import datetime
import json
from dataclasses import replace

import pytest

from novasched import errors
from novasched.commands.host import ShowHost
from novasched.db import server_tables, tables
from novasched.inspection.session.catalogue import flavor_of
from novasched.placement_copy.readers.api import ApiReader
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.commands import run, sources
from tests.functional.conftest import Host, named_uuid
from tests.support.clouds import factories

NOON = datetime.datetime.fromisoformat('2026-11-22T12:00:00')
HUGE_KB = 1048576


@pytest.fixture
def made(cloud):
    cells = [
        factories.numa_cell(0, range(4), pinned=[0, 1], pages={4: 1048576, HUGE_KB: 3}),
        factories.numa_cell(1, range(4, 8)),
    ]
    made = cloud(
        [
            Host(
                'h1',
                zone='az1',
                numa_topology=factories.numa_topology(*cells),
                pci_stats=factories.pools({'numa_node': 1, 'count': 2}),
            ),
            Host('h2', cell='cell2'),
        ],
        DEFAULT={'state_path': '/nonexistent'},
    )
    pinned = factories.guest_topology(
        factories.guest_cell(
            0,
            range(2),
            'dedicated',
            2048,
            pagesize=HUGE_KB,
            cpu_pinning_raw={'0': 0, '1': 1},
        )
    )
    server(made, 'db', NOON, numa_topology=pinned)
    devices = factories.devices(2)
    server(made, 'web', NOON + datetime.timedelta(hours=1), pci_requests=devices)
    server(made, 'gone', NOON, deleted=1)
    child = Provider(
        named_uuid('gpu'),
        'h1_gpu',
        {'VGPU': Inventory(4)},
        parent=made.hosts['h1'].uuid,
    )
    provide(made.adapter, [child])
    return made


def server(made, name, since, deleted=0, **kept):
    """Write a server of h1 as its cell keeps it."""
    uuid = named_uuid(name)
    row = {'uuid': uuid, 'host': 'h1', 'display_name': name, 'vcpus': 2}
    row |= {'memory_mb': 2048, 'vm_state': 'active', 'launched_at': since}
    made.add('cell1', tables.instances, deleted=deleted, instance_type_id=7, **row)
    flavor = flavor_of('vcpus=2,ram=2048,disk=1').obj_to_primitive()
    texts = {n: json.dumps(each.obj_to_primitive()) for n, each in kept.items()}
    texts['flavor'] = json.dumps({'cur': flavor, 'old': None, 'new': None})
    extra = {'instance_uuid': uuid, 'deleted': deleted, **texts}
    made.add('cell1', server_tables.instance_extra, **extra)


def test_json(made):
    code, answer, said = run(made, ShowHost, 'h1')
    assert (code, said) == (0, '')
    (node,) = answer['nodes']
    assert (node['enabled'], node['up'], node['cell']) == (True, True, 'cell1')
    assert [each['name'] for each in node['aggregates']] == ['az1']
    assert node['traits'] == ['OWNER_NOVA']
    assert node['resources']['VCPU'] == {
        'total': 8,
        'reserved': 0,
        'ratio': 1.0,
        'max_unit': 2147483647,
        'used': 0,
        'free': 8,
    }
    assert [list(each['resources']) for each in node['children']] == [['VGPU']]
    first, second = node['numa']
    assert first['dedicated_free'] == [2, 3]
    assert {'size_kb': HUGE_KB, 'total': 3, 'free': 3} in first['pages']
    assert second['dedicated_free'] == [4, 5, 6, 7]
    assert [(each['numa_node'], each['free']) for each in node['devices']] == [(1, 2)]
    assert [each['name'] for each in answer['holders']] == ['web', 'db']
    assert answer['holders'][1]['pages'] == [
        {'node': 0, 'size_kb': HUGE_KB, 'count': 2}
    ]
    assert answer['holders'][1]['pcpu'] == {'0': [0, 1]}
    assert answer['holders'][1]['since'] == '2026-11-22T12:00:00Z'
    assert [each['pci'] for each in answer['holders']] == [2, 0]


def test_a_host_that_placement_does_not_know_is_named(made):
    for name in ('gpu', 'node h1'):
        path = f'/resource_providers/{named_uuid(name)}'
        assert made.adapter.delete(path).status_code == 204
    _, text, _ = run(made, ShowHost, 'h1', form='text')
    uuid = made.hosts['h1'].uuid
    assert f'Placement has no resource provider {uuid}, which nova-compute' in text


@pytest.mark.parametrize(
    ('holding', 'names'), [('pages', ['db']), ('pcpu', ['db']), ('pci', ['web'])]
)
def test_holders(made, holding, names):
    _, answer, _ = run(made, ShowHost, 'h1', '--holders', holding)
    assert [each['name'] for each in answer['holders']] == names
    assert answer['servers'] == 2


def test_text(made):
    code, text, _ = run(made, ShowHost, 'h1', '--long', form='text')
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith('h1      enabled · heard from ')
    assert lines[1].strip() == 'aggregate az1 (availability_zone=az1) · 0 servers'
    assert lines[2] == 'Traits  OWNER_NOVA'
    assert ['VCPU', '0', 'of', '8', '8', '8', '0', '1'] in map(str.split, lines)
    said = ' '.join(text.split())
    assert 'NUMA node 0: 2 of 4 CPUs free to be pinned: 2-3 · 0 guest CPUs' in said
    assert 'pages of 4 KiB 4 of 4 GiB free · pages of 1 GiB 3 of 3 free' in said
    assert 'Devices 8086:1520 near node 1: 2 free' in lines
    assert '2 of 1 GiB on node 0' in text
    assert '0-1 on node 0' in text


def in_use(made):
    """Write the flavor of the servers."""
    row = {'id': 7, 'name': 'often', 'flavorid': 'often', 'memory_mb': 3000}
    row |= {'vcpus': 2, 'swap': 0, 'root_gb': 1, 'disabled': False, 'is_public': True}
    made.add('api', server_tables.flavors, **row)


def test_slots_of_the_flavors_in_use(made):
    in_use(made)
    _, answer, _ = run(made, ShowHost, 'h1')
    assert answer['slots'] == [{'flavor': 'often', 'slots': 2, 'why': None}]


def test_resources_are_shown_without_a_count_of_slots(made):
    class OnlyTrees(ApiReader):
        def read(self, hints):
            raise errors.StoreFailed('Placement', 'it hurts')

    in_use(made)
    trees = OnlyTrees(made.adapter, 1.0)
    read = replace(sources(made), providers=trees)
    code, answer, _ = run(made, ShowHost, 'h1', read=read)
    assert (code, answer['slots']) == (4, None)
    assert answer['nodes'][0]['resources']['VCPU']['free'] == 8
    (problem,) = answer['placement_problems']
    assert problem.startswith('Slots are not shown. Placement could not be asked: it')


def test_a_flavor_whose_trait_placement_does_not_know(made):
    in_use(made)
    spec = {'flavor_id': 7, 'key': 'trait:CUSTOM_NONE', 'value': 'required'}
    made.add('api', server_tables.flavor_extra_specs, **spec)
    code, answer, _ = run(made, ShowHost, 'h1')
    (slots,) = answer['slots']
    assert (code, slots['slots']) == (0, 0)
    assert slots['why'] == 'no such trait CUSTOM_NONE'


def test_nothing_runs_here(made):
    _, text, _ = run(made, ShowHost, 'h2', form='text')
    assert 'Nothing runs here.' in text


def test_a_host_that_there_is_not(made):
    with pytest.raises(errors.OptionError, match='there is no host h9'):
        run(made, ShowHost, 'h9')


def test_a_cell_that_is_away(made, tmp_path):
    path = tmp_path / 'cell2'
    path.rename(path.with_suffix('.away'))
    code, answer, said = run(made, ShowHost, 'h1')
    assert (code, answer['cells_left_out']) == (4, ['cell2'])
    assert said == 'warning: cell2 does not answer; its hosts are not in this\n'
    with pytest.raises(errors.StoreFailed, match='cell2'):
        run(made, ShowHost, 'h2')


def test_a_cell_that_stops_answering(made, tmp_path):
    code, answer, said = run(made, ShowHost, 'h2', stops=tmp_path / 'cell2')
    assert (code, answer['holders']) == (4, [])
    assert answer['cells_left_out'] == ['cell2']
    assert said == 'warning: cell2 does not answer; its hosts are not in this\n'
