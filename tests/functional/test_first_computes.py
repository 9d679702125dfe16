# SPDX-License-Identifier: Apache-2.0
"""A cloud without computes, whose first one registers while requests come."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched_lab.resource_providers import provide
from tests.functional.conftest import Host, new_uuids
from tests.support.tables.cases import cases

H1 = Host('h1')


def registering(made):
    """Return what a compute and its cloud write, by names."""
    written = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(made, 'add', lambda *where, **row: written.append((where, row)))
        made._write_host(H1)
    steps = {
        table.name: lambda where=(database, table), row=row: made.add(*where, **row)
        for (database, table), row in written
    }
    made.hosts[H1.name] = H1
    return {**steps, 'provider': lambda: provide(made.adapter, [made.provider(H1)])}


@cases(
    'order',
    ('as computes do', 'services compute_nodes provider host_mappings'),
    ('provider first', 'provider host_mappings compute_nodes services'),
    ('service last', 'compute_nodes provider host_mappings services'),
    ('mapped before', 'host_mappings services compute_nodes provider'),
)
@pytest.mark.parametrize('has_copy', [False, True])
def test_first_compute_is_chosen_once_it_has_registered(cloud, order, has_copy):
    made = cloud([])
    copy = {'providers': made.placement_contents()} if has_copy else {}
    scheduler = made.serve(**copy)
    steps = registering(made)
    for name in order.split():
        steps.pop(name)()
        if steps.keys() - {'host_mappings'}:
            with pytest.raises(errors.NoValidHost):
                made.ask(scheduler, new_uuids())
    assert not steps
    assert made.ask(scheduler, new_uuids()) == [['h1']]
