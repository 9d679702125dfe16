# SPDX-License-Identifier: Apache-2.0
"""Answers are written as nova writes them."""

import json

import pytest

from novasched.objects import base
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import SchedulerLimits
from novasched.objects.selection import Selection
from tests.support.tables.cases import cases

OBJECT_REPLIES = [
    '01-simple-boot',
    '01c-az-and-hint',
    '02-multi-create-anti-affinity',
    '03-numa-pinned-hugepages',
    '03b-numa-shared',
    '04-pci-alias',
    '05-granular-resources-traits',
    '06-requested-destination',
    '07-resize-retry-ignore-hosts',
    '08-rebuild-same-host',
]


def made_of(sent):
    """Make a selection by hand with the values of a primitive."""
    data = dict(sent['nova_object.data'])
    limits = dict(data.pop('limits')['nova_object.data'])
    numa = limits.pop('numa_topology')
    if numa is not None:
        numa = dict(numa['nova_object.data'])
        if 'network_metadata' in numa:
            metadata = numa['network_metadata']['nova_object.data']
            numa['network_metadata'] = NetworkMetadata(
                physnets=set(metadata['physnets']), tunneled=metadata['tunneled']
            )
        numa = NUMATopologyLimits(**numa)
    return Selection(limits=SchedulerLimits(numa_topology=numa, **limits), **data)


@pytest.mark.parametrize('name', OBJECT_REPLIES)
@pytest.mark.parametrize('read', [base.parse, made_of])
def test_a_captured_selection_is_written_alike(sample, plain, name, read):
    reply = sample(f'rpc/{name}.reply')['message']['result']
    for sent in (selection for chosen in reply for selection in chosen):
        written = json.loads(json.dumps(read(sent).obj_to_primitive()))
        assert plain(written) == plain(sent)


LIMITS = NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0)


@cases(
    'limits, expected',
    ('no limits', SchedulerLimits(), {}),
    ('null', None, {}),
    ('a number', SchedulerLimits(vcpu=8), {'vcpu': 8}),
    (
        'an object',
        SchedulerLimits(numa_topology=LIMITS),
        {'numa_topology': LIMITS.obj_to_primitive()},
    ),
)
def test_to_dict(limits, expected):
    selection = Selection(service_host='cmp-1', nodename='node-1', limits=limits)
    assert selection.to_dict() == {
        'host': 'cmp-1',
        'nodename': 'node-1',
        'limits': expected,
    }


@pytest.mark.parametrize(
    'name',
    [
        '01b-simple-boot-no-objects',
        '09b-legacy-4.0-dicts',
        '09c-version-4.3',
        '09d-version-4.4',
    ],
)
def test_to_dict_is_the_captured_answer(sample, plain, name):
    for answer in sample(f'rpc/{name}.reply')['message']['result']:
        limits = answer['limits']
        if 'numa_topology' in limits:
            limits = {'numa_topology': base.parse(limits['numa_topology'])}
        selection = Selection(
            service_host=answer['host'],
            nodename=answer['nodename'],
            limits=SchedulerLimits(**limits),
        )
        written = selection.to_dict()
        for kind in ('host', 'nodename'):
            assert written[kind] == answer[kind]
        assert set(written['limits']) == set(answer['limits'])
        for kind, value in answer['limits'].items():
            assert plain(json.loads(json.dumps(written['limits'][kind]))) == plain(
                value
            )
