# SPDX-License-Identifier: Apache-2.0
"""Free resources, load, failures, versions and cells, as final weights of the hosts."""

import pytest

from novasched import errors
from novasched.objects.request_spec import CellMapping, Destination
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import (
    BuildFailureWeigher,
    CPUWeigher,
    CrossCellWeigher,
    HypervisorVersionWeigher,
    NumInstancesWeigher,
    SameHostWeigher,
)
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

NAN = float('nan')


def totals(weigher, request=None, **columns):
    hosts = factories.hosts(**columns)
    return weigh([weigher], hosts, request or factories.request()).totals.tolist()


@cases(
    'weigher, column, values, weights',
    ('fewer', NumInstancesWeigher(-1.0), 'num_instances', [1, 5, 3], [0, -1, -0.5]),
    ('more', NumInstancesWeigher(10.0), 'num_instances', [1, 5, 3], [0, 10, 5]),
    (
        'new',
        HypervisorVersionWeigher(),
        'hypervisor_version',
        [5, 7, NAN],
        [5 / 7, 1, 0],
    ),
)
def test_weights_of_a_column(weigher, column, values, weights):
    assert totals(weigher, **{column: values}) == weights


def test_a_host_that_never_reported_fails_the_request():
    with pytest.raises(errors.ExtensionFailed, match='CPUWeigher'):
        totals(CPUWeigher(), cpu_allocation_ratio=[NAN, 4.0])


def test_the_option_of_devices_may_not_be_negative():
    conf = make_conf()
    with pytest.raises(ValueError):
        conf.set_override('pci_weight_multiplier', -1.0, 'filter_scheduler')


A = 'a0000000-0000-4000-8000-000000000001'
B = 'b0000000-0000-4000-8000-000000000001'
CELL = CellMapping(uuid=A)
AWAY = {'allow_cross_cell_move': True}


@cases(
    'destination, cells, weights',
    ('it is preferred', Destination(cell=CELL, **AWAY), [A, B, A], [10**6, 0, 10**6]),
    ('all are in the cell', Destination(cell=CELL, **AWAY), [A, A], [0, 0]),
    ('it may not', Destination(cell=CELL, allow_cross_cell_move=False), [A, B], [0, 0]),
    ('no cell is named', Destination(cell=None, **AWAY), [A, B], [0, 0]),
    ('only a host is named', Destination(host='h1', **AWAY), [A, B], [0, 0]),
    ('whether it may is not said', Destination(cell=CELL), [A, B], [0, 0]),
    ('no destination', None, [A, B], [0, 0]),
)
def test_cells(destination, cells, weights):
    request = factories.request(requested_destination=destination)
    assert totals(CrossCellWeigher(), request, cell_uuid=cells) == weights


@cases(
    'seconds, weights',
    ('as in nova', None, [-1, 0, -0.5]),
    ('forgotten', 3600, [0, 0, -1]),
)
def test_failed_builds_are_forgotten_if_the_option_says_so(seconds, weights):
    conf = make_conf()
    conf.set_override('build_failure_weight_multiplier', 1.0, 'filter_scheduler')
    conf.set_override('build_failure_forget_after', seconds, 'filter_scheduler')
    columns = {'failed_builds': [2, 0, 1], 'recent_failed_builds': [0, 0, 1]}
    assert totals(BuildFailureWeigher.from_conf(conf), **columns) == weights


IN_CELL = Destination(cell=CELL)


@cases(
    'asked, weights',
    ('a resize that may stay', {'requested_destination': IN_CELL}, [0, 5]),
    ('an unshelve', {'requested_destination': IN_CELL, 'ignore_hosts': []}, [0, 5]),
    ('a move away', {'requested_destination': IN_CELL, 'ignore_hosts': ['h2']}, [0, 0]),
    ('a boot', {}, [0, 0]),
    ('a boot on a host', {'requested_destination': Destination(host='h2')}, [0, 0]),
)
def test_the_host_of_a_moved_instance_is_preferred(asked, weights):
    request = factories.request(**asked)
    assert totals(SameHostWeigher(5.0), request, is_source=[False, True]) == weights
    columns = SameHostWeigher(5.0).depends_on(request)
    assert columns == (('is_source',) if any(weights) else ())
