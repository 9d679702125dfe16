# SPDX-License-Identifier: Apache-2.0
"""Hosts, and their candidates, with the PCI devices that are asked for."""

import pytest

from novasched.objects.pci import InstancePCIRequests
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.clouds.factories import devices, pools
from tests.support.tables.cases import cases

ID = '7c676751-512d-41c1-b313-66dc92a3b8f6'
PLAIN = {'mappings': {'': ['root']}}
FILTER = PciPassthroughFilter()


def of_provider(*uuids):
    """Return a candidate with a device of each of these providers."""
    groups = {f'{ID}-{number}': [uuid] for number, uuid in enumerate(uuids)}
    return {'mappings': {'': ['root'], **groups}}


def hosts(*texts, candidates=(PLAIN,)):
    listed = [list(candidates) for _ in texts]
    return factories.hosts(pci_stats=list(texts), allocation_candidates=listed)


def passed(table, asked):
    return FILTER.apply(table, factories.request(pci_requests=asked)).host.tolist()


def test_hosts_pass_with_enough_devices():
    other = {'vendor_id': '10de', 'count': 5}
    table = hosts(pools(2), pools(1), pools(1, 1), pools(other), None)
    assert passed(table, devices(2)) == ['h1', 'h3']


@pytest.mark.parametrize('asked', [None, InstancePCIRequests(requests=[])])
def test_without_devices_every_host_passes(asked):
    table = hosts(None, None, candidates=[])
    request = factories.request(pci_requests=asked)
    assert FILTER.apply(table, request) is table


@cases(
    'candidates, kept',
    ('no such provider', [of_provider('a'), of_provider('z')], [0]),
    ('both', [of_provider('b'), of_provider('a')], [0, 1]),
    ('of any provider', [PLAIN], [0]),
    ('without mappings', [{'allocations': {}}], [0]),
    ('none', [of_provider('z')], []),
    ('none given', [], []),
)
def test_candidates_are_kept_one_by_one(candidates, kept):
    table = hosts(
        pools({'rp_uuid': 'a'}, {'rp_uuid': 'b', 'tag': 'x'}), candidates=candidates
    )
    request = factories.request(pci_requests=devices(request_id=ID))
    after = FILTER.apply(table, request)
    left = [one for host in after.states() for one in host.allocation_candidates]
    assert left == [candidates[number] for number in kept]
    assert table.state(0).allocation_candidates == candidates


def test_a_port_takes_any_provider_and_needs_a_candidate():
    asked = devices(alias=None, request_id=ID)
    text = pools({'rp_uuid': 'a'})
    assert passed(hosts(text, candidates=[of_provider('z')]), asked) == ['h1']
    assert passed(hosts(text, candidates=[]), asked) == []


def test_hosts_whose_providers_stand_alike_are_looked_at_alike():
    candidate = [of_provider('a', 'a'), of_provider('b', 'b')]
    table = factories.hosts(
        pci_stats=[pools({'rp_uuid': name, 'count': 2}) for name in 'ab'],
        allocation_candidates=[list(candidate), list(candidate)],
    )
    request = factories.request(pci_requests=devices(2, request_id=ID))
    after = FILTER.apply(table, request)
    assert [host.allocation_candidates for host in after.states()] == [
        [candidate[0]],
        [candidate[1]],
    ]


@cases(
    'table, code',
    ('no pools', hosts(None), Code.PCI_DEVICES_MISSING),
    ('nonsense', hosts('{}}'), Code.NODE_DATA_MISSING),
    ('left', hosts(pools(2), candidates=[]), Code.CANDIDATE_MISSING),
)
def test_a_host_that_is_rejected_says_why(table, code):
    request = factories.request(pci_requests=devices())
    host = table.state(0)
    assert not FILTER.host_passes(host, request)
    reason = FILTER.why(table.state(0), request)
    assert reason.code is code
    assert reason.code in FILTER.codes


@cases(
    'asked, text',
    ('named providers', devices(request_id=ID), 'candidate 1 of 2: nic ('),
    ('candidates are all the same', devices(alias=None), 'port ('),
)
def test_which_of_the_candidates_a_reason_is_about(asked, text):
    table = hosts(None, candidates=[of_provider('a'), of_provider('b')])
    reason = FILTER.why(table.state(0), factories.request(pci_requests=asked))
    assert reason.text.startswith(text)
