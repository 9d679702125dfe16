# SPDX-License-Identifier: Apache-2.0
"""What a decision tells of itself."""

import random

from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Code
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases


class Odd(BaseHostFilter):
    """Gives its hosts twice."""

    def filter_all(self, filter_obj_list, spec_obj):
        return 2 * filter_obj_list


class Remembers(BaseHostFilter):
    """Gives hosts that it was not asked about."""

    def __init__(self, hosts):
        self.hosts = hosts

    def filter_all(self, filter_obj_list, spec_obj):
        return [*filter_obj_list, *self.hosts.states()]


class Warns(ColumnFilter):
    """Takes out the second host, and says so."""

    def mask(self, hosts, request):
        return hosts.host != 'h2'

    def request_warnings(self, before, after, request):
        hosts = before.host.tolist(), before.without(after).host.tolist()
        yield PluginWarning(f'{hosts} for {request.instance_uuid}')


class Stops(BaseHostFilter):
    """Says to stop filtering."""

    def filter_all(self, filter_obj_list, spec_obj):
        return None


class Unclear(BaseHostWeigher):
    """Gives something, but not for all hosts."""

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [1, 2, float('nan')]


class Lazy(BaseHostWeigher):
    """Gives nothing."""

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return []


def decide_on(filters, hosts, *weighers):
    profile = Profile(factories.adapted(filters), factories.adapted(weighers))
    return decide(profile, hosts, factories.request(), random.Random(1))


def test_a_filter_warns_of_what_it_took_out():
    request = factories.request()
    silent, step = decide_on([NumInstancesFilter(), Warns()], factories.hosts(2)).steps
    assert silent.warnings(request) == []
    (said,) = step.warnings(request)
    assert said == PluginWarning(f"(['h1', 'h2'], ['h2']) for {request.instance_uuid}")


def said(made):
    return [str(warning) for warning in made.plugin_warnings]


def test_the_same_of_other_hosts_is_the_same_warning():
    (seven,) = decide_on([Odd()], factories.hosts(7)).plugin_warnings
    (two,) = decide_on([Odd()], factories.hosts(2)).plugin_warnings
    assert len({seven, two}) == 1
    assert str(seven) != str(two)


def test_nothing_is_warned_of_where_all_is_in_order():
    made = decision()
    assert made.plugin_warnings == []
    assert made.stopped_by is None
    assert made.took_s == {}


def test_a_filter_that_says_to_stop_is_named_but_not_in_the_funnel():
    made = decide_on([ComputeFilter(), Stops()], factories.hosts(2))
    assert made.stopped_by == 'Stops'
    assert made.funnel() == ['ComputeFilter: (start: 2, end: 2)']
    assert not len(made.ranked)
    assert decide_on([], factories.hosts(2)).stopped_by is None


def test_filter_that_returns_a_rejected_host_is_named():
    hosts = factories.hosts(num_instances=[9, 1])
    made = decide_on([NumInstancesFilter(5), Remembers(hosts[[0]])], hosts)
    assert said(made) == ['Remembers gave what was rejected before: h1']
    assert made.ranked.host.tolist() == ['h2', 'h1']


class Multiplies(Unclear):
    """Has a multiplier that is no number."""

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [1, 2]

    def weight_multiplier(self, host_state):
        return float('nan')


FIVE, TIMES = 'h1, h2, h3, h4, h5', 'times its multiplier is no number'


@cases('filters, count, weighers, lines',
    ('twice', [Odd()], 7, [], [f'Odd gave more than once: {FIVE} and 2 more']),
    ('no weights', [], 2, [RAMWeigher(), Lazy()], ['Lazy gave no weight: h1, h2']),
    ('odd weights', [], 4, [Unclear()],
     ['Unclear gave no weight: h4', 'Unclear gave what is no number: h3']),
    ('odd multipliers', [], 2, [Multiplies()], [f'Multiplies {TIMES}: h1, h2']),
)  # fmt: skip
def test_plugin_with_an_odd_result_is_named(filters, count, weighers, lines):
    assert said(decide_on(filters, factories.hosts(count), *weighers)) == lines


def test_a_score_of_infinite_times_zero_is_named():
    aggregate = factories.aggregate(1, ram_weight_multiplier='inf')
    hosts = factories.hosts(free_ram_mb=[0, 2], aggregates=[(aggregate,), ()])
    assert said(decide_on([], hosts, RAMWeigher())) == [f'RAMWeigher {TIMES}: h1']


def decision():
    hosts = factories.hosts(
        num_instances=[9, 1, 5, 7], service_up=[True, True, False, True]
    )
    profile = Profile((ComputeFilter(), NumInstancesFilter(limit=5)), ())
    return decide(profile, hosts, factories.request(), random.Random(1))


def test_rejected_hosts_have_reasons():
    made = decision()
    assert made.funnel() == [
        'ComputeFilter: (start: 4, end: 3)',
        'NumInstancesFilter: (start: 3, end: 1)',
    ]
    assert [step.name for step in made.steps] == ['ComputeFilter', 'NumInstancesFilter']
    reasons = [
        [(host.host, reason) for host, reason in step.reasons(made.request)]
        for step in made.steps
    ]
    assert reasons == [
        [('h3', (Code.SERVICE_DOWN, 'has not been heard from since None'))],
        [
            ('h1', (Code.TOO_MANY_INSTANCES, '9 instances, limit 5')),
            ('h4', (Code.TOO_MANY_INSTANCES, '7 instances, limit 5')),
        ],
    ]
