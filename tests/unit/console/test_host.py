# SPDX-License-Identifier: Apache-2.0
"""The page of a host, and that of a plan: what is drawn and said."""

import pytest

from novasched.console.pages import host, words
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
    assert links['db-3'] == f'/decisions?server={HOLDER["server"]}'
    assert links['d-06f3jz0a4k2pw'] == '/decisions/d-06f3jz0a4k2pw'
    row = seen.text('table', id='held')
    assert '1 CPU, 2 GiB 2 of 1 GiB on node 0 4-5 on node 0' in row
    assert 'Devices' not in row


def test_schedulers_that_did_not_answer_are_named():
    said = page('/hosts/cmp-1', host={**ANSWER, 'unanswered': ['ctl3']}).text()
    assert 'ctl3 did not answer; decisions that it made are not seen.' in said


def test_a_host_without_a_compute_node():
    empty = {**ANSWER, 'nodes': [], 'holders': [], 'slots': []}
    said = page('/hosts/cmp-1', host=empty).text()
    assert 'No compute node' in said
    assert 'Nothing runs here.' in said


def test_free_cpu_belongs_to_no_server():
    stale = {**HOLDER, 'pcpu': {'0': [0, 1]}}
    (node,) = host.view(of_json(HostReport, {**ANSWER, 'holders': [stale]}))['nodes']
    assert [cpu['kind'] for cpu in node['numa'][0]['cpus'][:3]] == [host.FREE] * 3


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
    assert seen.text('table', id='changes').endswith('any zone 12')
    others = seen.text('table', id='not-enough')
    assert others.endswith('8192 free MEMORY_MB (8 GiB) zone')
    assert '1 change is not enough alone' in said


@pytest.mark.parametrize(
    ('ms', 'said'),
    [(None, '–'), (0, '0 ms'), (0.42, '0.4 ms'), (19.4, '19 ms'), (2157, '2.2 s')],
)
def test_durations(ms, said):
    assert words.duration(ms) == said


@pytest.mark.parametrize(
    ('resource', 'number', 'said'),
    [
        ('MEMORY_MB', 512, '512 MiB'),
        ('MEMORY_MB', 1536, '1.5 GiB'),
        ('DISK_GB', 204800, '200 TiB'),
        ('VCPU', 12, '12'),
    ],
)
def test_amounts(resource, number, said):
    assert words.amount(resource, number) == said


@pytest.mark.parametrize(
    ('resource', 'number', 'whole', 'said'),
    [
        ('MEMORY_MB', 1024, 262144, '1 of 256 GiB'),
        ('MEMORY_MB', 512, 262144, '0.5 of 256 GiB'),
        ('MEMORY_MB', 8, 262144, '<0.1 of 256 GiB'),
        ('DISK_GB', 0, 204800, '0 of 200 TiB'),
        ('DISK_GB', 520, 204800, '0.5 of 200 TiB'),
        ('VCPU', 12, 64, '12 of 64'),
    ],
)
def test_parts_have_the_unit_of_the_whole(resource, number, whole, said):
    assert words.part(resource, number, whole) == said


@pytest.mark.parametrize(
    ('resource', 'text', 'said'),
    [
        (
            'MEMORY_MB',
            '262144 wanted, at most 512 free',
            '256 GiB wanted, at most 512 MiB free',
        ),
        ('VCPU', '64 wanted', '64 wanted'),
        ('', 'in zone az1, not az2', 'in zone az1, not az2'),
    ],
)
def test_texts_on_a_resource_class_get_its_unit(resource, text, said):
    assert words.in_units(resource, text) == said


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        (
            '262144 free MEMORY_MB on cmp-15',
            '262144 free MEMORY_MB (256 GiB) on cmp-15',
        ),
        ('8 free VCPU, 80 free DISK_GB', '8 free VCPU, 80 free DISK_GB (80 GiB)'),
    ],
)
def test_amounts_in_texts_are_explained(text, said):
    assert words.explained_amounts(text) == said


@pytest.mark.parametrize(
    ('value', 'said'), [(0, '0'), (0.001, '<0.01'), (0.25, '0.25'), (4.2, '4.2')]
)
def test_rates(value, said):
    assert words.number(value) == said
    assert words.number(123.4) == '123'
