# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster as providers, as rows and as a request."""

import importlib.resources
import json

import pytest
import sqlalchemy as sa

from novasched.db import tables
from novasched.ports import CELL0_UUID
from novasched_lab.local import cluster
from novasched_lab.local import walkthrough as demo
from novasched_lab.local.databases import database_urls, made_databases


class Uuids(dict):
    """The name of an aggregate for its uuid."""

    def __missing__(self, name):
        return name


@pytest.fixture(scope='module')
def walkthrough():
    return cluster.read()


@pytest.fixture(scope='module')
def log():
    """The data file."""
    files = importlib.resources.files('novasched_lab.local')
    return json.loads(files.joinpath(cluster.DATA).read_text())


def free(inventory):
    return (inventory.total - inventory.reserved) * inventory.allocation_ratio


def test_the_request_fits_every_host(walkthrough):
    request = cluster.request_spec(walkthrough)
    for provider in walkthrough.providers(Uuids()):
        assert free(provider.inventories['VCPU']) >= request.vcpus
        assert free(provider.inventories['MEMORY_MB']) >= request.memory_mb
        assert free(provider.inventories['DISK_GB']) >= request.root_gb


def test_providers_offer_what_the_log_says_is_free(walkthrough, log):
    found = walkthrough.providers(Uuids())
    for logged, provider in zip(log['hosts'], found, strict=True):
        assert provider.name == logged['node']
        assert free(provider.inventories['MEMORY_MB']) == logged['free_ram_mb']
        assert free(provider.inventories['DISK_GB']) == logged['free_disk_mb'] // 1024
        assert 'OWNER_NOVA' in provider.traits


def test_providers_are_in_the_aggregates_of_their_hosts(walkthrough):
    found = {provider.name: provider for provider in walkthrough.providers(Uuids())}
    for aggregate in walkthrough.aggregates():
        members = {n for n, p in found.items() if aggregate.name in p.aggregates}
        assert members == set(aggregate.hosts)


def test_request_equals_the_request_of_the_log(walkthrough):
    request = cluster.request_spec(walkthrough)
    assert request.instance_uuid == '3a09fd41-b36b-438d-9f59-35a98524165f'
    assert request.availability_zone == 'SERIES-3-ZONE'
    assert request.extra_specs == {
        'flavor_class': 's3-public',
        'hw:mem_page_size': '1048576',
    }


@pytest.fixture(scope='module')
def rows(walkthrough, tmp_path_factory):
    """A function that gives the rows of a table of the filled databases."""
    directory = tmp_path_factory.mktemp('{walk}')
    urls = database_urls(None, directory)
    conf = demo.configured(urls, 'fake:///', str(directory))
    with made_databases(conf, urls, demo.NO_TRANSPORT, walkthrough.cell_uuid):
        demo.fill(conf, urls, walkthrough)
        found = {}
        for url, metadata in ((urls.api, tables.API), (urls.cell1, tables.CELL)):
            engine = sa.create_engine(url)
            with engine.connect() as connection:
                for table in metadata.tables.values():
                    query = sa.select(table).order_by(table.c.id)
                    made = connection.execute(query).mappings()
                    found[table.name] = [dict(row) for row in made]
            engine.dispose()
    return found, urls


@pytest.fixture(scope='module')
def nodes(rows):
    return rows[0]['compute_nodes']


@pytest.fixture(scope='module')
def api(rows):
    return rows[0]


def test_every_host_has_a_service_a_node_and_a_mapping(walkthrough, api):
    names = [each.host.name for each in walkthrough.hosts]
    assert len(set(names)) == 16
    for table in ('services', 'compute_nodes', 'host_mappings'):
        assert [row['host'] for row in api[table]] == names


def test_services_are_up(api):
    for service in api['services']:
        assert not service['disabled']
        assert not service['forced_down']
        assert service['last_seen_up']


def test_used_and_free_amounts_make_the_total(nodes):
    for node in nodes:
        assert node['memory_mb_used'] + node['free_ram_mb'] == node['memory_mb']
        assert node['local_gb_used'] + node['free_disk_gb'] == node['local_gb']
        assert min(node['memory_mb_used'], node['local_gb_used']) > 0
        assert node['vcpus_used'] <= node['vcpus'] * node['cpu_allocation_ratio']


def test_nodes_show_what_was_logged(log, nodes):
    for logged, node in zip(log['hosts'], nodes, strict=True):
        stats = json.loads(node['stats'])
        assert node['free_ram_mb'] == logged['free_ram_mb']
        assert node['free_disk_gb'] * 1024 == logged['free_disk_mb']
        assert int(stats['num_instances']) == logged['num_instances']
        assert int(stats['io_workload']) == logged['io_ops']


def test_numa_cells_make_the_memory_of_the_host(nodes):
    topologies = [node['numa_topology'] for node in nodes if node['numa_topology']]
    assert len(topologies) == 4
    for text in topologies:
        cells = json.loads(text)['nova_object.data']['cells']
        memory = [cell['nova_object.data']['memory'] for cell in cells]
        assert sum(memory) == cluster.MEMORY_MB


def test_each_zone_and_each_flavor_class_is_an_aggregate(api):
    metadata = [(row['key'], row['value']) for row in api['aggregate_metadata']]
    assert sorted(metadata) == [
        ('availability_zone', 'FEITENG-ZONE'),
        ('availability_zone', 'SERIES-3-ZONE'),
        ('availability_zone', 'cnp_sdn-NOVA-AZ1'),
        ('availability_zone', 'cnp_sdn-NOVA-AZ2'),
        ('flavor_class', 'cm3-optimized'),
        ('flavor_class', 's3-public'),
    ]


def test_the_urls_of_the_cells_are_no_templates(rows):
    found, urls = rows
    cell0, cell1 = found['cell_mappings']
    assert cell0['database_connection'].format() == urls.cell0
    assert cell1['database_connection'].format() == urls.cell1


def test_the_hosts_are_not_in_cell0(walkthrough, api):
    cell_ids = {row['uuid']: row['id'] for row in api['cell_mappings']}
    used = {row['cell_id'] for row in api['host_mappings']}
    assert used == {cell_ids[walkthrough.cell_uuid]}
    assert walkthrough.cell_uuid == '432015b0-14e9-4e81-96eb-2ec36d79773b' != CELL0_UUID
