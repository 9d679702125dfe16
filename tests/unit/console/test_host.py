# SPDX-License-Identifier: Apache-2.0
"""The page of a host, and that of a plan: what is drawn and said."""

from novasched.console.pages import host
from novasched.inspection.questions.reports import HostReport
from novasched.runtime.typed_json import of_json
from tests.support.records.console_answers import page

HOLDER = {
    'server': '5b1c8e42-0c9e-4f0e-9d0a-77f1f2c5a001',
    'name': 'db-3',
    'flavor': 'm1.pinned.2',
    'state': 'active',
    'vcpus': 1,
    'memory_mb': 2048,
    'pages': [{'node': 0, 'size_kb': 1048576, 'count': 2}],
    'pcpu': {'0': [4, 5]},
    'pci': 0,
    'since': '2026-11-22T11:58:02Z',
    'decision': 'd-06f3jz0a4k2pw',
}
CELL = {
    'node': 0,
    'cpus': 2,
    'cpus_used': 3,
    'dedicated_cpus': 8,
    'dedicated_free': [0, 1, 7],
    'memory_mb': 65536,
    'memory_free_mb': 1024,
    'pages': [
        {'size_kb': 4, 'total': 1048576, 'free': 262144},
        {'size_kb': 1048576, 'total': 1000, 'free': 3},
        {'size_kb': 2048, 'total': 0, 'free': 0},
    ],
}
RESOURCE = {
    'total': 8,
    'reserved': 0,
    'ratio': 4.0,
    'max_unit': 8,
    'used': 32,
    'free': 0,
}
NODE = {
    'node': 'cmp-1.example.org',
    'uuid': 'u',
    'cell': 'cell1',
    'enabled': False,
    'disabled_reason': 'memory is replaced',
    'up': False,
    'forced_down': True,
    'heard_from': None,
    'aggregates': [{'name': 'pinned', 'properties': {'pinned': 'true'}}],
    'instances': 1,
    'io_ops': 0,
    'traits': ['HW_CPU_X86_AVX512F'],
    'resources': {'VCPU': RESOURCE},
    'children': [{'uuid': 'c', 'resources': {'VGPU': RESOURCE}, 'traits': []}],
    'numa': [CELL],
    'devices': [{'vendor_id': '10de', 'product_id': '20b5', 'numa_node': 1, 'free': 2}],
}
ANSWER = {
    'as_of': '2026-11-22T12:10:07Z',
    'host': 'cmp-1',
    'nodes': [NODE],
    'holders': [HOLDER],
    'servers': 1,
    'slots': [{'flavor': 'm1.large', 'slots': 0, 'why': 'disabled or down'}],
    'decisions': [],
    'cells_left_out': ['cell3'],
}


def test_each_cpu_is_drawn_with_who_has_it():
    seen = page('/hosts/cmp-1', host=ANSWER)
    kinds = [found['class'] for found, _ in seen.all('rect') if 'cpu' in found['class']]
    free, taken, unknown = 'cpu free', 'cpu taken', 'cpu unknown'
    assert kinds == [free, free, taken, taken, free, unknown, unknown, unknown]
    titles = [text for _, text in seen.all('title')][1:]
    assert titles[2] == 'CPU 4: db-3'


def test_state_pages_and_devices():
    said = page('/hosts/cmp-1', host=ANSWER).text()
    assert '!down' in said
    assert 'forced down –disabled memory is replaced heard from never' in said
    assert 'aggregate pinned pinned=true' in said
    assert 'pages of 4 KiB 1 of 4 GiB free' in said
    assert 'pages of 1 GiB 3 of 1,000 free' in said
    assert 'pages of 2 MiB' not in said
    assert '10de:20b5 near node 1: 2 free' in said
    assert 'cell3 does not answer' in said


def test_holders_open_their_decisions():
    seen = page('/hosts/cmp-1', host=ANSWER)
    links = {text: found['href'] for found, text in seen.all('a')}
    assert links['5b1c8e42…'] == f'/decisions?server={HOLDER["server"]}'
    assert links['d-06f3jz0a4k2pw'] == '/decisions/d-06f3jz0a4k2pw'
    row = seen.text('table', id='held')
    assert 'db-3 m1.pinned.2 1 CPU, 2 GiB 2 of 1 GiB on node 0 4-5 on node 0' in row
    assert 'Devices' not in row


def test_schedulers_that_did_not_answer_are_named():
    said = page('/hosts/cmp-1', host={**ANSWER, 'unanswered': ['ctl3']}).text()
    assert 'ctl3 did not answer; decisions that it made are not seen.' in said


def test_a_host_without_a_compute_node():
    empty = {**ANSWER, 'nodes': [], 'holders': [], 'servers': 0, 'slots': []}
    said = page('/hosts/cmp-1', host=empty).text()
    assert 'No compute node' in said
    assert 'Nothing runs here.' in said


def test_free_cpu_belongs_to_no_server():
    stale = {**HOLDER, 'pcpu': {'0': [0, 1]}}
    (node,) = host.view(of_json(HostReport, {**ANSWER, 'holders': [stale]}))['nodes']
    assert [cpu['kind'] for cpu in node['numa'][0]['drawn'][:3]] == [host.FREE] * 3


PLANNED = {
    'fits': 1,
    'asked': 3,
    'offered': 1,
    'placed': [],
    'unplaced': [
        {'server': 'u', 'name': '', 'flavor': 'f', 'count': 2, 'explanation': None}
        | {'error': 'no request is kept'}
    ],
    'changes': [
        {'change': 'any zone', 'hosts': 12, 'also_fail': ''},
        {'change': '8192 free MEMORY_MB', 'hosts': 0, 'also_fail': 'zone'},
    ],
    'notes': ['server group web is gone: left out'],
    'as_of': '2026-11-22T12:10:07Z',
    'placement_age_s': 0.0,
    'cells_left_out': ['cell3'],
    'seed': 1,
    'plan_id': 'p-9f2c41',
    'hosts': [
        {'host': 'cmp-1', 'servers': 1, 'room': None, 'alternates': ['cmp-2']},
        {'host': 'cmp-3', 'servers': 1, 'room': 3, 'alternates': []},
    ],
}


def test_a_plan_is_said_and_drawn():
    seen = page('/plan?flavor=f&zone=az1&count=3&hints=a%3Db', plan=PLANNED)
    said = seen.text('section', id='result')
    for text in (
        '✕1 of 3 servers fit', '1 host offered', 'cell3 does not answer', 'web is gone',
        'no request is kept', 'cmp-1 1 – cmp-2', 'cmp-3 1 3 more',
        'novasched plan boot --flavor f --availability-zone az1 --count 3 --hint a=b',
    ):  # fmt: skip
        assert text in said
    changes = seen.text('table', id='changes')
    assert changes.endswith('any zone 12 – 8192 free MEMORY_MB (8 GiB) 0 zone')
