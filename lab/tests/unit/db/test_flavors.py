# SPDX-License-Identifier: Apache-2.0
"""Flavors of the API database."""

import pytest

from novasched_lab.db import server_tables
from novasched_lab.db.api_servers import ApiServers

ROW = {
    'name': 'big',
    'flavorid': '42',
    'memory_mb': 4096,
    'vcpus': 2,
    'swap': 0,
    'root_gb': None,
    'ephemeral_gb': 5,
    'rxtx_factor': 1.0,
    'disabled': False,
    'is_public': True,
}


@pytest.fixture
def api(databases):
    """A database with two flavors, of which one is called after the other's id."""
    (id_, _) = databases.add(
        server_tables.flavors, ROW, {**ROW, 'name': 'other', 'flavorid': 'big'}
    )
    specs = [('hw:cpu_policy', 'dedicated'), ('empty', None)]
    databases.add(
        server_tables.flavor_extra_specs,
        *({'flavor_id': id_, 'key': key, 'value': value} for key, value in specs),
    )
    return ApiServers(databases.api)


def test_a_flavor_is_found_by_its_name(api):
    found = api.flavor('big')
    assert (found.name, found.flavorid, found.vcpus) == ('big', '42', 2)
    assert (found.root_gb, found.ephemeral_gb) == (0, 5)
    assert found.extra_specs == {'hw:cpu_policy': 'dedicated', 'empty': ''}


def test_a_flavor_is_found_by_its_id(api):
    assert api.flavor('42').name == 'big'
    assert api.flavor('nothing') is None


def test_a_database_without_flavors_has_none(databases):
    for table in (server_tables.flavor_extra_specs, server_tables.flavors):
        table.drop(databases.api)
    assert ApiServers(databases.api).flavor('big') is None
