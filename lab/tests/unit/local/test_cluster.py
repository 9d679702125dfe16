# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster as providers and as a request."""

from __future__ import annotations

import pytest

from novasched_lab.local import cluster


@pytest.fixture(scope='module')
def walkthrough():
    return cluster.read()


def free(inventory):
    return (inventory.total - inventory.reserved) * inventory.allocation_ratio


def test_the_request_fits_every_host(walkthrough):
    request = cluster.request_spec(walkthrough)
    for provider in cluster.providers(walkthrough):
        assert free(provider.inventories['VCPU']) >= request.vcpus
        assert free(provider.inventories['MEMORY_MB']) >= request.memory_mb
        assert free(provider.inventories['DISK_GB']) >= request.root_gb


def test_providers_offer_what_the_log_says_is_free(walkthrough):
    found = cluster.providers(walkthrough)
    for host, provider in zip(walkthrough.hosts, found, strict=True):
        assert (provider.uuid, provider.name) == (host.uuid, host.node)
        assert free(provider.inventories['MEMORY_MB']) == host.free_ram_mb
        assert free(provider.inventories['DISK_GB']) == host.free_disk_gb
        assert provider.traits == {'OWNER_NOVA'}


def test_providers_are_in_the_aggregates_of_their_hosts(walkthrough):
    found = {provider.name: provider for provider in cluster.providers(walkthrough)}
    for aggregate in walkthrough.aggregates():
        members = {n for n, p in found.items() if aggregate.uuid in p.aggregates}
        assert members == set(aggregate.hosts)


def test_the_cell_is_not_cell0(walkthrough):
    assert walkthrough.cell_uuid == '432015b0-14e9-4e81-96eb-2ec36d79773b'


def test_the_request_is_that_of_the_log(walkthrough):
    request = cluster.request_spec(walkthrough)
    assert request.instance_uuid == '3a09fd41-b36b-438d-9f59-35a98524165f'
    assert request.availability_zone == 'SERIES-3-ZONE'
    assert request.extra_specs == {
        'flavor_class': 's3-public',
        'hw:mem_page_size': '1048576',
    }
