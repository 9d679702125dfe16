# SPDX-License-Identifier: Apache-2.0
"""Conditions of a request that a host meets, on clouds in memory."""

from dataclasses import replace

import pytest

from novasched.inspection.questions import plan
from novasched.inspection.questions.why_not import why_not
from novasched.inspection.session import catalogue
from novasched.inspection.session.server_request import moved
from tests.support.clouds import factories
from tests.support.clouds.dry_clouds import ALIAS, DryCloud, node, stats
from tests.support.tables.cases import cases

SMALL = 'vcpus=1,ram=512,disk=1'
FILTERS = ('ComputeFilter', 'NUMATopologyFilter', 'PciPassthroughFilter')


def cloud(*nodes, filters=FILTERS, **settings):
    settings |= {'enabled_filters': filters}
    return DryCloud(
        nodes, (), {'filter_scheduler': settings, 'pci': {'alias': [ALIAS]}}
    )


def wanted_in(opened, flavor):
    return opened.maker.boot(catalogue.flavor_of(flavor))


def failing(report):
    return [condition.name for condition in report.failing]


def one_cell(**fields):
    return factories.numa_topology(factories.numa_cell(0, range(4), **fields))


@cases(
    'row, filters, asked',
    (
        'device',
        {'pci_stats': factories.pools(1)},
        FILTERS,
        'pci_passthrough:alias=nic:1',
    ),
    (
        'dedicated CPU',
        {'numa_topology': one_cell(pinned=range(3))},
        FILTERS,
        'hw:cpu_policy=dedicated',
    ),
    (
        'page',
        {'numa_topology': one_cell(pages={524288: 1})},
        FILTERS,
        'hw:mem_page_size=524288',
    ),
    ('memory', {'free_ram_mb': 512}, ('RamFilter',), ''),
    ('I/O slot', {'stats': stats(7)}, ('IoOpsFilter',), ''),
)
def test_last_free_resource_is_free(row, filters, asked):
    stocks = {'inventories': {**node().inventories, 'PCPU': node().inventories['VCPU']}}
    made = cloud(node('h1', row=row, **stocks), filters=filters)
    with made.opened() as opened:
        wanted = wanted_in(opened, ','.join([SMALL, asked]).strip(','))
        assert plan.boot(opened.run, wanted).fits == 1
        [slots] = opened.capacity.slots('f', wanted.request).counts.tolist()
        assert slots == (8 if 'IoOpsFilter' in filters else 1)  # builds end
        report = why_not(opened.run, 'h1', wanted)
        assert (failing(report), report.rank) == ([], 1)


def test_question_sees_no_picks_of_one_before_it():
    with cloud(node('h1', row={'pci_stats': factories.pools(1)})).opened() as opened:
        wanted = wanted_in(opened, f'{SMALL},pci_passthrough:alias=nic:1')
        for _ in range(2):
            assert plan.boot(opened.run, wanted).fits == 1
            assert why_not(opened.run, 'h1', wanted).fits


def test_host_of_another_cell_is_no_place_for_server_that_moves():
    with cloud(node('h1'), node('h2', cell='c2')).opened() as opened:
        asked = wanted_in(opened, SMALL)
        request = moved(
            asked.request,
            flavor=asked.request.flavor,
            project_id='project',
            user_id='user',
            cell=('c1', 'c1'),
            leaves=(),
        )
        asked = replace(asked, request=request)
        assert why_not(opened.run, 'h1', asked).fits
        report = why_not(opened.run, 'h2', asked)
        assert failing(report) == ['request']
        assert report.conditions[0].text == 'the server stays in its cell'


@pytest.mark.parametrize('sizes', [(1, 4), (4, 1)])
def test_host_of_several_nodes_fits_if_one_of_them_does(sizes):
    with cloud(*(node('h1', vcpus=vcpus) for vcpus in sizes)).opened() as opened:
        report = why_not(opened.run, 'h1', wanted_in(opened, 'vcpus=2,ram=512,disk=1'))
        assert (failing(report), report.of) == ([], 1)
        assert report.node == f'h1-{sizes.index(4)}'
