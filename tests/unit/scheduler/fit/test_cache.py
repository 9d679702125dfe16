# SPDX-License-Identifier: Apache-2.0
"""Cached fits of hosts, and the candidates that are left."""

import gc
import weakref

import numpy as np
import pytest

from novasched.scheduler.fit.cache import (
    MOST_KEYS,
    MOST_REQUIREMENTS,
    FitCache,
    filter_candidates,
)
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.pci import requests_of
from novasched.scheduler.fit.requirements import FitRequirements
from novasched.scheduler.hosts import Categories
from tests.support.clouds import factories
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)

ID = '7c676751-512d-41c1-b313-66dc92a3b8f6'


class Counting(Fitting):
    """Counts the guests that are fitted."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, 'fitted', 0)

    def attempts(self, cells, guest, limits, each):
        object.__setattr__(self, 'fitted', self.fitted + len(each))
        return super().attempts(cells, guest, limits, each)


def topologies(count, used=0):
    """Return as many topologies, all different, with a CPU used and more."""
    return [
        HostTopology(numa_topology(numa_cell(cpu_usage=used, memory=2048 + number)))
        for number in range(count)
    ]


def table(values, pools=(), **columns):
    count = len(values)
    hosts = factories.hosts(count, **columns)
    given = {'numa_topology': Categories(values, np.arange(count))}
    if pools:
        made = [HostPools(factories.pools(*one)) for one in pools]
        given['pci_stats'] = Categories(made, np.arange(count))
    return hosts.with_columns(**given)


def question(fitting, cpus=1, **values):
    topology = guest_topology(guest_cell(cpus=range(cpus)))
    return FitRequirements.of(
        factories.request(numa_topology=topology, **values), fitting
    )


@pytest.fixture
def fitting():
    return Counting()


def test_hosts_that_stay_as_they_are_are_asked_once(fitting):
    answers, hosts, asked = FitCache(), table(topologies(5)), question(fitting)
    for _ in range(3):
        assert answers.of(asked, hosts).tolist() == [(True,)] * 5
    assert fitting.fitted == 5


def test_only_a_host_that_changed_is_asked_again(fitting):
    answers, hosts, asked = FitCache(), table(topologies(5)), question(fitting)
    answers.of(asked, hosts)
    booked = hosts.replace(3, numa_topology=topologies(1, used=64)[0])
    found = answers.of(asked, booked[np.array([4, 3])]).tolist()
    assert found == [(True,), (False,)]
    assert fitting.fitted == 6


@pytest.mark.parametrize('name', ['cpu_allocation_ratio', 'ram_allocation_ratio'])
def test_other_ratios_are_another_question(fitting, name):
    answers, hosts, asked = FitCache(), table(topologies(2)), question(fitting)
    answers.of(asked, hosts)
    found = answers.of(asked, hosts.replace(1, **{name: 0.0})).tolist()
    assert found == [(True,), (False,)]
    assert fitting.fitted == 3


def test_no_more_fits_are_kept_than_the_constants_say(fitting):
    answers, hosts, asked = FitCache(), table(topologies(1)), question(fitting)
    for number in range(MOST_KEYS + 4):
        answers.of(asked, hosts.replace(0, cpu_allocation_ratio=16.0 + number))
    before = fitting.fitted
    answers.of(asked, hosts.replace(0, cpu_allocation_ratio=16.0))
    assert fitting.fitted == before + 1


def test_hosts_may_move_to_other_rows(fitting):
    answers, asked = FitCache(), question(fitting)
    values = topologies(34)
    answers.of(asked, table(values))
    answers.of(asked, table([*topologies(1, used=1), *values[1:-1][::-1]]))
    assert fitting.fitted == len(values) + 1


def test_a_host_that_becomes_like_another_is_not_asked_again(fitting):
    answers, asked = FitCache(), question(fitting)
    empty, used = (*topologies(1), *topologies(1, used=1))
    hosts = table([empty, used])
    for codes in ([0, 1], [1, 1], [0, 0], [1, 0]):
        now = Categories([empty, used], np.array(codes))
        found = answers.of(asked, hosts.with_columns(numa_topology=now))
        assert found.tolist() == [(True,)] * 2
    assert fitting.fitted == 2


def test_each_of_many_questions_is_remembered(fitting):
    answers, hosts = FitCache(), table(topologies(1))
    asked = [question(fitting, cpus) for cpus in range(1, MOST_REQUIREMENTS + 1)]
    for each in (*asked, *asked):
        answers.of(each, hosts)
    assert fitting.fitted == MOST_REQUIREMENTS


def test_topologies_that_no_host_has_any_more_are_forgotten(fitting):
    answers = FitCache()
    for cpus in (1, 2):
        before = topologies(3)
        gone = [weakref.ref(each) for each in before]
        answers.of(question(fitting, cpus), table(before))
        del before
        answers.of(question(fitting, cpus + 2), table(topologies(1, used=2)))
        gc.collect()
        assert [each() for each in gone] == [None] * 3


def test_a_topology_is_not_taken_for_one_that_is_gone(fitting):
    answers, asked = FitCache(), question(fitting)
    assert answers.of(asked, table(topologies(1))).tolist() == [(True,)]
    assert answers.of(asked, table(topologies(1, used=64))).tolist() == [(False,)]
    assert answers.of(asked, table([None])).tolist() == [(False,)]


def test_hosts_that_differ_in_what_does_not_matter_are_asked_once(fitting):
    pools = [[{'rp_uuid': 'a'}, {}], [{'rp_uuid': 'b'}, {}]]
    hosts = table(topologies(1) * 2, pools)
    asked = question(fitting, pci_requests=factories.devices(request_id=ID))
    mappings = [[{f'{ID}-0': [uuid]}] for uuid in 'ab']
    assert FitCache().of(asked, hosts, mappings).tolist() == [(True,)] * 2
    assert fitting.fitted == 1


def test_other_providers_are_asked_again(fitting):
    hosts = table(topologies(1), [[{'rp_uuid': 'a'}, {'rp_uuid': 'b', 'count': 0}]])
    asked = question(fitting, pci_requests=factories.devices(request_id=ID))
    answers = FitCache()

    def found(*uuids):
        mappings = [[{f'{ID}-0': [uuid]} for uuid in uuids]]
        return answers.of(asked, hosts, mappings).tolist()

    assert found('a', 'b') == [(True, False)]
    assert found('b', 'a') == [(False, True)]
    assert found('b', 'a') == [(False, True)]
    assert found() == [()]
    assert fitting.fitted == 4


def test_hosts_with_too_few_devices_are_not_fitted(fitting):
    hosts = table(topologies(2), [[{}], [{'vendor_id': '10de'}]])
    asked = question(fitting, pci_requests=factories.devices(alias=None))
    assert FitCache().of(asked, hosts).tolist() == [(True,), ()]
    assert fitting.fitted == 1


def test_without_guest_nodes_the_devices_are_asked():
    hosts = table([None, None], [[{}], [{'vendor_id': '10de'}]])
    asked = FitRequirements.of(
        factories.request(pci_requests=factories.devices()), Fitting()
    )
    assert FitCache().of(asked, hosts, [[None]] * 2).tolist() == [(True,), ()]


def candidate(uuid):
    return {'mappings': {'': ['root'], f'{ID}-0': [uuid]}}


NEAR, FAR = candidate('near'), candidate('far')


def hosts(*texts, candidates):
    listed = [list(candidates) for _ in texts]
    return factories.hosts(pci_stats=list(texts), allocation_candidates=listed)


def left(table, hopeful=None, **asked):
    """Return the hosts that pass, and the candidates of all."""
    everyone = np.ones(len(table), bool)
    hopeful = everyone if hopeful is None else np.array(hopeful)
    question = FitRequirements(
        None, requests_of(factories.devices(request_id=ID, **asked))
    )
    passes, after = filter_candidates(table, question, FitCache(), hopeful)
    assert len(after) == len(table)
    return passes.tolist(), [host.allocation_candidates for host in after.states()]
