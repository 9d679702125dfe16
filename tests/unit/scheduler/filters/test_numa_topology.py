# SPDX-License-Identifier: Apache-2.0
"""Hosts on whose NUMA nodes an instance fits, and what they may be filled up to."""

import pytest

from novasched.objects.network import NetworkMetadata
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

PLAIN = {'mappings': {'': ['root']}}
FOUR = numa_topology(numa_cell(cpus=range(4)))
NEAR_NET = NetworkMetadata(physnets={'a'}, tunneled=False)


def hosts(*texts, candidates=(PLAIN,), **columns):
    count = len(texts)
    listed = [list(candidates) for _ in texts]
    return factories.hosts(
        count, numa_topology=list(texts), allocation_candidates=listed, **columns
    )


def request(*cells, **values):
    return factories.request(numa_topology=guest_topology(*cells), **values)


def dedicated(count, **fields):
    return guest_cell(cpus=range(count), policy='dedicated', **fields)


def why(table, asked, fitting=None):
    """Return the reason of the first host, which every grain rejects."""
    filter_ = NUMATopologyFilter(fitting)
    assert table.state(0).host not in filter_.apply(table, asked).host.tolist()
    host = table.state(0)
    assert not filter_.host_passes(host, asked)
    reason = filter_.why(table.state(0), asked)
    assert reason.code in filter_.codes
    return reason


def test_hosts_pass_on_which_the_nodes_fit():
    small = numa_topology(numa_cell(cpus=range(2)))
    pinned = numa_topology(numa_cell(cpus=range(4), pinned=[0]))
    table = hosts(FOUR, small, pinned, None, FOUR)
    passed = NUMATopologyFilter().apply(table, request(dedicated(4)))
    assert passed.host.tolist() == ['h1', 'h5']


@pytest.mark.parametrize('as_nova', [False, True])
def test_limits_are_recorded_on_the_hosts_that_pass(as_nova):
    table = hosts(FOUR, FOUR, FOUR, None, cpu_allocation_ratio=[2.0, 2.0, 3.0, 2.0])
    asked = request(guest_cell(), network_metadata=NEAR_NET)
    passed = NUMATopologyFilter(Fitting(as_nova=as_nova)).apply(table, asked)
    found = [limits['numa_topology'] for limits in passed.limits.tolist()]
    assert [limits.cpu_allocation_ratio for limits in found] == [2.0, 2.0, 3.0]
    assert {limits.ram_allocation_ratio for limits in found} == {1.0}
    assert [limits.network_metadata.physnets for limits in found] == [{'a'}] * 3
    own = {id(limits) for limits in found}
    own |= {id(limits.network_metadata) for limits in found}
    assert len(own - {id(NEAR_NET)}) == 6
    assert table.limits.tolist() == [{}] * 4


def test_networks_that_were_not_asked_for_are_no_limit():
    passed = NUMATopologyFilter().apply(hosts(FOUR), request(guest_cell()))
    assert 'network_metadata' not in passed.state(0).limits['numa_topology']


def test_one_host_is_a_table_of_one():
    host = hosts(FOUR, candidates=[PLAIN, PLAIN]).state(0)
    assert NUMATopologyFilter().host_passes(host, request(dedicated(4)))
    assert host.limits['numa_topology'].cpu_allocation_ratio == 4.0
    assert len(host.allocation_candidates) == 2


def test_without_nodes_every_host_passes_untouched():
    table = hosts(FOUR, None, candidates=[])
    for asked in (factories.request(), request()):
        assert NUMATopologyFilter().apply(table, asked) is table


@pytest.mark.parametrize('asked', [{'image': None}, {'image': {}}])
def test_an_image_may_have_no_properties(asked):
    table = hosts(FOUR)
    assert_verdict(NUMATopologyFilter(), table, request(guest_cell(), **asked), True)


def specs(cpus, threads):
    return {'hw:cpu_policy': cpus, 'hw:cpu_thread_policy': threads}


OWN, THREADS = {'hw:cpu_policy': 'dedicated'}, {'hw_cpu_thread_policy': 'require'}


@cases(
    'extra_specs, image, passes',
    ('nothing asked', {}, None, True),
    ('the flavor asks', specs('dedicated', 'require'), None, False),
    ('flavor and image ask', OWN, THREADS, False),
    ('mixed policy is not held against it', specs('mixed', 'require'), None, True),
    ('preferred', specs('dedicated', 'prefer'), {'hw_cpu_policy': 'dedicated'}, True),
)
def test_threads_are_asked_for_even_without_nodes(extra_specs, image, passes):
    threads = numa_topology(numa_cell(threads=2))
    table = hosts(FOUR, threads, None)
    asked = factories.request(extra_specs=extra_specs, image=image)
    passed = NUMATopologyFilter().apply(table, asked).host.tolist()
    assert passed == (['h1', 'h2', 'h3'] if passes else ['h2', 'h3'])
    if not passes:
        assert why(table, asked).code is Code.THREADS_MISSING


@cases('table, code, text',
    ('no nodes', hosts(None), Code.NUMA_MISSING, 'reports no NUMA nodes'),
    ('nonsense', hosts('nonsense'), Code.NODE_DATA_MISSING,
     'numa_topology of the compute cannot be read: JSONDecodeError: '),
    ('no CPU ratio', hosts(FOUR, cpu_allocation_ratio=[float('nan')]),
     Code.RATIO_UNKNOWN, 'cpu_allocation_ratio is unknown'),
    ('no memory ratio', hosts(FOUR, ram_allocation_ratio=[float('nan')]),
     Code.RATIO_UNKNOWN, 'ram_allocation_ratio is unknown'),
    ('no candidates', hosts(FOUR, candidates=[]), Code.CANDIDATE_MISSING,
     'no allocation candidate is left'),
    ('too few CPUs',
     hosts(numa_topology(numa_cell(0, range(2)), numa_cell(1, range(2, 5)))),
     Code.NOT_ENOUGH_DEDICATED_CPUS,
     '2 of 4 dedicated CPUs in cell 0, 3 in cell 1; no cell holds 4'),
)  # fmt: skip
@pytest.mark.parametrize('as_nova', [False, True])
def test_a_host_that_is_rejected_says_why(table, code, text, as_nova):
    reason = why(table, request(dedicated(4)), Fitting(as_nova=as_nova))
    assert reason.code is code
    assert reason.text.startswith(text)


def test_candidates_are_kept_with_whose_devices_the_instance_fits():
    near, far = {'rp_uuid': 'near', 'numa_node': 0}, {'rp_uuid': 'far', 'numa_node': 1}
    cells = numa_cell(0, range(4)), numa_cell(1, range(4, 8), pinned=range(4, 8))
    candidates = [
        {'mappings': {'': ['root'], 'r-0': [uuid]}} for uuid in ('far', 'near', 'none')
    ]
    table = hosts(
        numa_topology(*cells),
        candidates=candidates,
        pci_stats=[factories.pools(near, far)],
    )
    devices = factories.devices(request_id=None, numa_policy='required')
    devices.requests[0]._obj_request_id = 'r'
    asked = request(dedicated(4), pci_requests=devices)
    passed = NUMATopologyFilter().apply(table, asked)
    assert passed.state(0).allocation_candidates == [candidates[1]]
    assert table.state(0).allocation_candidates == candidates
    none = hosts(numa_topology(*cells), pci_stats=[factories.pools(far)])
    assert why(none, asked).code is Code.PCI_WRONG_NODE


def test_which_of_the_candidates_a_reason_is_about():
    candidates = [{'mappings': {'r-0': [uuid]}} for uuid in 'ab']
    devices = factories.devices(request_id=None)
    devices.requests[0]._obj_request_id = 'r'
    table = hosts(
        FOUR, candidates=candidates, pci_stats=[factories.pools({'rp_uuid': 'c'})]
    )
    reason = why(table, request(dedicated(1), pci_requests=devices))
    assert reason.code is Code.PCI_WRONG_PROVIDER
    assert reason.text.startswith('candidate 1 of 2: nic (')
    assert '0 of 1 free of resource provider a, 1 of other' in reason.text
    crowded = request(dedicated(5), pci_requests=devices)
    assert why(table, crowded).text.startswith('4 of 5 dedicated CPUs in cell 0')


def test_devices_that_cannot_be_read():
    table = hosts(FOUR, pci_stats=['[7]'])
    asked = request(dedicated(1), pci_requests=factories.devices())
    reason = why(table, asked)
    assert reason.code is Code.NODE_DATA_MISSING
    assert reason.text.startswith('pci_stats of the compute cannot be read: TypeError')


def test_hosts_alike_are_fitted_once():
    table = hosts(*[FOUR] * 3, *[numa_topology(numa_cell(cpus=range(4)))] * 2)
    fitted = []

    class Counting(Fitting):
        def attempts(self, *args):
            fitted.append(args)
            return super().attempts(*args)

    filter_ = NUMATopologyFilter(Counting())
    for _ in range(2):
        assert len(filter_.apply(table, request(dedicated(4)))) == 5
    assert len(fitted) == 1


def test_the_options_say_how_nodes_are_tried():
    conf = make_conf()
    conf.set_override('numa_compat', 'nova', 'novasched')
    assert NUMATopologyFilter.from_conf(conf).fitting == Fitting(as_nova=True)
