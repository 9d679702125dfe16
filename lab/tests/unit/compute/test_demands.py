# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestGroup
from novasched_lab.compute.demands import Demand
from tests import factories

PROVIDER = '40000000-0000-4000-8000-000000000001'


def test_of_a_request():
    topology = factories.guest_topology(factories.guest_cell())
    group = RequestGroup(requester_id='port', provider_uuids=[PROVIDER])
    demand = Demand.of_request(
        factories.request(
            vcpus=2,
            memory_mb=1024,
            root_gb=10,
            ephemeral_gb=5,
            numa_topology=topology,
            requested_resources=[group],
        ),
        None,
    )
    assert (demand.vcpus, demand.memory_mb, demand.disk_gb) == (2, 1024, 15)
    assert demand.topology is topology
    assert demand.providers == {'port': [PROVIDER]}


def test_of_a_request_that_asked_placement_nothing():
    assert Demand.of_request(factories.request(), None).providers is None


def test_of_an_instance():
    instance = Instance(
        vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, project_id='p'
    )
    assert Demand.of_instance(instance) == Demand(2, 1024, 15, 'p')
