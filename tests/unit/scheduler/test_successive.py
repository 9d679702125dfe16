# SPDX-License-Identifier: Apache-2.0
"""Who is asked about the next instance, and about which hosts."""

import math
import random

import numpy as np
import pytest

from novasched import errors
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, consume
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.successive import decide_next
from novasched.scheduler.weighers import Weigher
from novasched.scheduler.weighers.resources import PCIWeigher, RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

OTHER = 'c0000000-0000-4000-8000-000000000002'


class Asked(ColumnFilter):
    """Passes hosts with free memory, and counts those that it is asked about."""

    def __init__(self, columns=('free_ram_mb',)):
        self.columns, self.hosts = columns, []

    def depends_on(self, request):
        return self.columns

    def mask(self, hosts, request):
        self.hosts.append(len(hosts))
        return hosts.free_ram_mb > 0


class Weighs(Weigher):
    """Weighs by free memory, and counts the hosts that it weighs."""

    def __init__(self, columns=('free_ram_mb',), weight=float):
        super().__init__()
        self.columns, self.hosts, self.weight = columns, [], weight

    def weigh(self, hosts, request):
        self.hosts.append(len(hosts))
        return np.array([self.weight(mb) for mb in hosts.free_ram_mb.tolist()])


class Recorder:
    """Stands in for what measures filters and weighers."""

    def __init__(self):
        self.watched = []

    def __call__(self, *what):
        self.watched.append(what)
        return self

    def __enter__(self):
        return None

    def __exit__(self, *problem):
        return None


def twice(profile, free_ram_mb=(9000, 8000, 7000), watch=None, **asked):
    """Decide on two instances; return the second decision."""
    hosts, rng = factories.hosts(free_ram_mb=free_ram_mb), random.Random(1)
    request = factories.request(memory_mb=1500, **asked)
    first = decide(profile, hosts, request, rng)
    row = first.ranked.state(0)._row
    left = consume(first.ranked, row, request)
    more = {} if watch is None else {'watch': watch}
    request = request.for_instance(OTHER)
    return decide_next(profile, first, left, row, request, rng, 1, **more)


def test_only_the_changed_host_is_asked_about():
    asked, weighs, watch = Asked(), Weighs(), Recorder()
    second = twice(Profile((asked,), (weighs, PCIWeigher())), watch=watch)
    assert (asked.hosts, weighs.hosts) == ([3, 1], [3, 1])
    assert watch.watched == [('Filter', 'Asked', 1), ('Weigher', 'Weighs', 1)]
    assert second.ranked.host.tolist() == ['h2', 'h1', 'h3']
    assert second.funnel() == ['Asked: (start: 3, end: 3)']
    ram, _ = second.weighed.weighings
    assert ram.raw.tolist() == [7500.0, 8000.0, 7000.0]
    assert ram.normalized.tolist() == [0.5, 1.0, 0.0]


def test_plugin_that_depends_on_no_change_is_not_asked():
    asked, weighs = Asked(('stats',)), Weighs(('stats',))
    twice(Profile((asked,), (weighs,)))
    assert (asked.hosts, weighs.hosts) == ([3], [3])


@cases(
    'profile',
    ('a filter looks at more', ([Asked(None)], [Weighs()])),
    ('a weigher looks at more', ([Asked()], [Weighs(None)])),
    ('NaN', ([], [Weighs(weight=lambda mb: math.nan if mb == 7500 else mb)])),
)
def test_all_hosts_are_looked_at_where_one_is_not_enough(profile):
    filters, weighers = profile
    twice(Profile(filters, weighers))
    assert weighers[0].hosts[-1] == 3


def test_weigher_that_takes_part_no_more_has_all_weighed_again():
    class Once(Weighs):
        def takes_part(self, hosts):
            return not self.hosts

    weighs = Weighs()
    second = twice(Profile((), (Once(), weighs)))
    assert [each.name for each in second.weighed.scored] == ['Weighs']
    assert weighs.hosts == [3, 3]


def test_a_weight_between_others_changes_one_total():
    favours = Weighs(('stats',), lambda mb: float(mb == 8000))
    second = twice(Profile((), (Weighs(), favours)), (9000, 8000, 6000))
    assert second.ranked.host.tolist() == ['h2', 'h1', 'h3']
    assert second.totals.tolist() == [500 / 3000 + 1, 1.0, 0.0]


def test_filters_of_the_first_instance_do_not_count():
    class Once(Asked):
        run_filter_once_per_request = True

    once, weighs = Once(None), Weighs()
    assert twice(Profile((once,), (weighs,))).steps == ()
    assert (once.hosts, weighs.hosts) == ([3], [3, 1])


def test_a_host_that_is_full_is_left_out():
    second = twice(Profile((Asked(),), (Weighs(),)), (1500, 1000, 500))
    assert second.ranked.host.tolist() == ['h2', 'h3']


def test_a_request_that_names_hosts_is_decided_as_a_whole():
    weighs = Weighs()
    second = twice(Profile((), (weighs,)), ignore_hosts=['h9'])
    assert weighs.hosts == [3, 3]
    assert second.notes == ('Host filter ignoring hosts: ',)


def test_one_host_is_not_weighed():
    weighs = Weighs()
    assert twice(Profile((), (weighs,)), (9000,)).ranked.host.tolist() == ['h1']
    assert weighs.hosts == []


def test_a_failure_names_what_failed():
    weighs = Weighs(weight={9000: 3, 8000: 2, 7000: 1}.__getitem__)
    with pytest.raises(errors.ExtensionFailed, match='Weighs'):
        twice(Profile((), (weighs,)))


def test_a_plugin_made_of_a_built_in_may_look_at_more():
    class Mine(RAMWeigher):
        """Weighs as it likes."""

    (mine,) = factories.adapted([Mine()])
    request = factories.request()
    assert RAMWeigher().depends_on(request) == ('free_ram_mb',)
    assert mine.depends_on(request) is None


def test_a_host_keeps_its_values_and_no_columns():
    hosts = factories.hosts(free_ram_mb=[9000, 8000])
    taken = consume(hosts, 0, factories.request(memory_mb=1000))
    host = taken.state(0)
    host.spare = 1
    kept = host.over(hosts.snapshot)
    assert (kept.free_ram_mb, kept.num_instances, kept.host) == (8000, 1, 'h1')
    assert kept.spare == 1
    assert kept._snapshot is hosts.snapshot
    assert isinstance(kept, HostState)
