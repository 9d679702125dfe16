# SPDX-License-Identifier: Apache-2.0
"""What is kept of a decision agrees with it, and adds up."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.hosts import consume
from novasched.scheduler.outline import (
    ASKED_OF_FAILURE,
    ASKED_OF_SUCCESS,
    BEST,
    MOST_REASONS,
    host_names,
    summarize,
)
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import (
    FIRST_STEP,
    LAST_STEP,
    NOT_A_CANDIDATE,
    NOT_NAMED,
    PASSED,
    Code,
    Reason,
)
from novasched.scheduler.successive import decide_next
from novasched.scheduler.weighers import Weigher
from novasched.scheduler.weighers.resources import CPUWeigher, DiskWeigher, RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.examples import examples

SEVERAL = (Code.REJECTED, *list(Code)[11:40])


class Rejects(ColumnFilter):
    """Rejects the hosts whose numbers of instances are among some; a code of its own
    for each number."""

    codes = SEVERAL

    def __init__(self, *numbers, explained_by=(), codes=SEVERAL):
        self.numbers = list(numbers)
        self.explained_by = explained_by
        self.codes = codes
        self.asked = []

    def mask(self, hosts, request):
        return ~np.isin(hosts.num_instances, self.numbers)

    def why(self, host, request):
        self.asked.append(host.host)
        return Reason(SEVERAL[host.num_instances], f'has {host.num_instances}')


class Marks(BaseHostFilter):
    """A plugin that says to stop filtering, if it has any hosts of an odd number."""

    codes = (Code.REJECTED, Code.TOO_MANY_INSTANCES)

    def filter_all(self, hosts, request):
        return None if any(h.num_instances % 2 for h in hosts) else list(hosts)


def decided(filters=(), weighers=(), hosts=None, request=None, rows=None, **profile):
    hosts = factories.hosts(num_instances=range(6)) if hosts is None else hosts
    hosts = hosts if rows is None else hosts[list(rows)]
    made = Profile(factories.adapted(filters), tuple(weighers), **profile)
    return decide(made, hosts, request or factories.request(), random.Random(1))


def reasons(step):
    return [tuple(each) for each in step.reasons]


tables = st.lists(st.integers(0, 9), max_size=40).flatmap(
    lambda numbers: st.tuples(
        st.just(factories.hosts(len(numbers), num_instances=numbers)),
        st.permutations(range(len(numbers))).flatmap(
            lambda rows: st.integers(0, len(rows)).map(lambda n: rows[:n])
        ),
    )
)
some_filters = st.lists(
    st.lists(st.integers(0, 9), max_size=4).flatmap(
        lambda numbers: st.sampled_from(
            [
                Rejects(*numbers),
                Rejects(*numbers, explained_by=('num_instances',)),
                Rejects(*numbers, explained_by=('num_instances', 'cell_uuid')),
                Rejects(*numbers, explained_by=('host', 'num_instances')),
                Rejects(*numbers, codes=(Code.REJECTED,)),
                NumInstancesFilter(limit=len(numbers) + 4),
                Marks(),
            ]
        )
    ),
    max_size=5,
)
naming = st.sampled_from(
    [{}, {'ignore_hosts': ['h1', 'h3']}, {'force_hosts': ['h2']}, {}]
)


@given(tables, some_filters, naming)
@examples(150)
def test_counts_add_up_and_every_host_has_one_outcome(table, filters, names):
    hosts, rows = table
    request = factories.request(**names)
    decision = decided(filters, (), hosts, request, rows)
    made = summarize(decision)

    assert (made.hosts, made.candidates) == (len(hosts), len(rows))
    for step, kept in zip(decision.steps, made.steps, strict=True):
        counted = sum(each.hosts for each in kept.reasons)
        assert counted == kept.before - kept.after
        assert (kept.before, kept.after) == (len(step.before), len(step.after))

    replayed = decided(filters, (), hosts, request, rows)
    expected = np.full(len(hosts), NOT_A_CANDIDATE)
    for row in rows:
        expected[row] = NOT_NAMED
    for number, step in enumerate(replayed.steps):
        expected[step.rejected.rows] = FIRST_STEP + number
    expected[replayed.ranked.rows] = PASSED
    assert list(made.outcomes) == expected.tolist()
    assert made.left == list(made.outcomes).count(PASSED)


@given(tables, st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_reason_is_asked_once_for_each_combination_of_columns(table, numbers):
    hosts, rows = table
    asks_all = Rejects(*numbers)
    asks_few = Rejects(*numbers, explained_by=('num_instances',))
    (one,) = summarize(decided([asks_all], (), hosts, rows=rows)).steps
    (other,) = summarize(decided([asks_few], (), hosts, rows=rows)).steps

    def counts(step):
        return [(each.code, each.text, each.hosts) for each in step.reasons]

    if len(asks_all.asked) == one.before - one.after:  # not a success with very many
        assert counts(one) == counts(other)
    assert len(asks_few.asked) == len(set(numbers) & {*hosts[rows].num_instances})


def test_reasons_have_the_most_frequent_first_with_a_text_and_a_host():
    hosts = factories.hosts(num_instances=[5, 5, 7, 9])
    (step,) = summarize(decided([Rejects(5, 7)], (), hosts)).steps
    assert reasons(step) == [
        (SEVERAL[5], 'has 5', 2, 'h1'),
        (SEVERAL[7], 'has 7', 1, 'h3'),
    ]


def test_very_many_reasons_are_kept_as_one_sum():
    hosts = factories.hosts(num_instances=[n for n in range(12) for _ in range(n + 1)])
    (step,) = summarize(decided([Rejects(*range(12))], (), hosts)).steps
    assert len(step.reasons) == MOST_REASONS + 1
    assert [each.hosts for each in step.reasons] == [12, 11, 10, 9, 8, 7, 6, 5, 10]
    assert reasons(step)[-1] == ('not-asked', '', 10, '')


@cases(
    'numbers, most',
    ('a failure', [3] * (ASKED_OF_FAILURE + 7), ASKED_OF_FAILURE),
    ('success', [3] * (ASKED_OF_SUCCESS + 7) + [4], ASKED_OF_SUCCESS),
)
def test_of_very_many_hosts_some_are_asked_about(numbers, most):
    filter_ = Rejects(3)
    (step,) = summarize(
        decided([filter_], (), factories.hosts(num_instances=numbers))
    ).steps
    assert len(filter_.asked) == most
    assert reasons(step) == [
        (SEVERAL[3], 'has 3', most, 'h1'),
        ('not-asked', '', 7, ''),
    ]


def test_a_filter_that_is_not_asked_any_more_counts_as_such():
    def silent(filter_, host, request):
        return Reason(Code.NOT_ASKED, '')

    (step,) = summarize(decided([Rejects(0, 1, 2, 3, 4, 5)]), silent).steps
    assert reasons(step) == [('not-asked', '', 6, '')]


@cases(
    'answer',
    ('nothing', None),
    ('a text', 'a text'),
    ('a pair', ('code', 'text')),
    ('it raises', ValueError('h1')),
    ('no text', type('Bad', (), {'__str__': lambda self: 1 // 0})()),
)
def test_a_plugin_may_answer_anything(answer):
    class Plugin(BaseHostFilter):
        def host_passes(self, host_state, spec_obj):
            return False

        def why(self, host, request):
            if isinstance(answer, Exception):
                raise answer
            return answer

    (step,) = summarize(decided([Plugin()])).steps
    ((code, text, count, example),) = reasons(step)
    assert (code, count, example) == ('rejected', 6, 'h1')
    assert isinstance(text, str)
    assert 'h1' not in text


class Twice(BaseHostFilter):
    """Gives the hosts of an even number twice, and no others."""

    def filter_all(self, hosts, request):
        return [host for host in hosts for _ in range(2) if not host.num_instances % 2]


def test_hosts_that_are_given_twice_are_counted_as_the_filters_do():
    made = summarize(decided([Twice(), Twice(), NumInstancesFilter(limit=3)]))
    assert [(step.before, step.after) for step in made.steps] == [
        (6, 6),
        (6, 12),
        (12, 8),
    ]
    counts = [sum(each.hosts for each in step.reasons) for step in made.steps]
    assert counts == [3, 0, 4]
    assert list(made.outcomes) == [1, 2, 1, 2, 4, 2]


def test_a_filter_that_says_to_stop_rejects_all():
    made = summarize(decided([Marks()]))
    (step,) = made.steps
    assert (step.before, step.after) == (6, 0)
    assert reasons(step) == [('rejected', 'rejected', 6, 'h1')]
    assert made.blocking == step


class Odd(ColumnFilter):
    """Rejects the host of one number."""

    def __init__(self, number):
        self.number = number

    def mask(self, hosts, request):
        return hosts.num_instances != self.number


def test_of_very_many_filters_the_last_share_an_outcome():
    hosts = factories.hosts(num_instances=range(260))
    made = summarize(decided([Odd(n) for n in range(256)], (), hosts))
    assert [sum(each.hosts for each in step.reasons) for step in made.steps] == [
        1
    ] * 256
    assert list(made.outcomes[:253]) == list(range(FIRST_STEP, LAST_STEP + 1))
    assert list(made.outcomes[253:256]) == [LAST_STEP] * 3
    assert list(made.outcomes[256:]) == [PASSED] * 4
    assert [step.reasons[0].example for step in made.steps[251:254]] == [
        'h252',
        'h253',
        'h254',
    ]


@cases(
    'filters, rows, blocking',
    ('hosts are left', [Rejects(1)], None, None),
    ('there were none', [], [], None),
    ('none came to the filter', [ComputeFilter()], [], None),
    ('the last one', [Rejects(1), Rejects(*range(6))], None, 5),
)
def test_the_filter_that_took_the_last_host(filters, rows, blocking):
    made = summarize(decided(filters, rows=rows))
    found = made.blocking
    assert (found and found.before) == blocking


# -- weights


RAM = [4000, 9000, 5000, 5000, 8000, 100, 200, 300, 400, 500, 600, 700]
FREE_DISK = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]
WEIGHED = {'free_ram_mb': RAM, 'free_disk_mb': FREE_DISK}


def agrees(made, decision):
    """Assert that the best hosts have the scores that the decision gave them."""
    names = decision.ranked.host.tolist()[:BEST]
    assert made.top == names
    assert made.totals == decision.totals.tolist()[:BEST]
    at = {
        name: place for place, name in enumerate(decision.weighed.hosts.host.tolist())
    }
    weighings = {each.name: each for each in decision.weighed.weighings}
    assert {each.name for each in made.weighers} | set(made.no_effect) == set(weighings)
    for kept in made.weighers:
        of_all = weighings[kept.name]
        places = [at[name] for name in names]
        assert kept.raw == of_all.raw[places].tolist()
        assert kept.normalised == of_all.normalized[places].tolist()
        assert kept.multipliers == of_all.multipliers[places].tolist()
    for place in range(len(names)):
        total = sum(w.normalised[place] * w.multipliers[place] for w in made.weighers)
        assert total == pytest.approx(made.totals[place])


class Plain(Weigher):
    """The weights that it is given, by number of the host; its name is given, too."""

    def __init__(self, name, weights, multiplier=1.0):
        super().__init__(multiplier)
        self.name = name
        self._weights = np.array(weights, float)

    def weigh(self, hosts, request):
        return self._weights[hosts.rows]


WEIGHERS = (RAMWeigher(), DiskWeigher(0.5), CPUWeigher(), Plain('Flat', [7] * 12))


@pytest.mark.parametrize('subset', [1, 3])
def test_the_best_hosts_and_their_weights(subset):
    hosts = factories.hosts(**WEIGHED)
    decision = decided([Rejects()], WEIGHERS, hosts, host_subset_size=subset)
    made = summarize(decision)
    agrees(made, decision)
    assert len(made.top) == BEST
    assert made.no_effect == ['Flat']  # CPUWeigher gives all the same, but not nothing


def test_the_weights_of_the_next_instance():
    hosts = factories.hosts(**WEIGHED)
    profile = Profile((NumInstancesFilter(limit=9),), WEIGHERS[:3])
    rng = random.Random(1)
    request = factories.request(memory_mb=1500)
    decision = decide(profile, hosts, request, rng)
    for index in range(1, 4):
        row = decision.ranked.state(0)._row
        left = consume(decision.ranked, row, request)
        decision = decide_next(profile, decision, left, row, request, rng, index)
        assert decision.weighed.places is not None
        agrees(summarize(decision), decision)


@pytest.mark.parametrize('count', [0, 1])
def test_a_single_host_is_not_weighed(count):
    made = summarize(decided((), WEIGHERS, factories.hosts(count)))
    assert made.top == ['h1'][:count]
    assert made.totals == [0.0][:count]
    assert (made.weighers, made.no_effect, made.decisive) == ([], [], {})


def test_totals_that_are_no_numbers_decide_nothing():
    aggregate = factories.aggregate(1, ram_weight_multiplier='inf')
    hosts = factories.hosts(
        free_ram_mb=[0, 2, 1], free_disk_mb=[1, 2, 3], aggregates=[(aggregate,), (), ()]
    )
    made = summarize(decided((), WEIGHERS, hosts))
    assert sum(total != total for total in made.totals) == 1
    assert made.decisive == {}


def test_of_hosts_that_tie_without_a_weigher_the_first_would_have_won():
    """The first of those that were weighed, whose order changes with the instance."""
    hosts = factories.hosts(
        free_ram_mb=[0, 4000, 16000, 8000], free_disk_mb=[400 * 1024] * 2 + [0, 0]
    )
    request = factories.request(memory_mb=0, root_gb=0, ephemeral_gb=0)
    weighers, rng = (RAMWeigher(2.0), DiskWeigher(1.0)), random.Random(1)
    profile = Profile((), weighers)
    decision = decide(profile, hosts, request, rng)
    assert summarize(decision).decisive['RAMWeigher'] == 'h1'
    row = decision.ranked.state(0)._row
    left = consume(decision.ranked, row, request)
    decision = decide_next(profile, decision, left, row, request, rng, 1)
    assert decision.weighed.places is not None
    without = decide(Profile((), weighers[1:]), left, request, random.Random(1))
    assert summarize(decision).decisive['RAMWeigher'] == without.ranked.host[0] == 'h2'


weights = st.lists(st.integers(-3, 3), min_size=6, max_size=6)
multipliers = st.sampled_from([1.0, -1.0, 0.1, 0.3, 3.0])


@given(
    st.lists(st.tuples(weights, multipliers), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 99),
)
@examples(150)
def test_a_weigher_is_decisive_if_another_host_is_the_best_without_it(
    given_, subset, seed
):
    weighers = [Plain(str(n), *each) for n, each in enumerate(given_)]
    hosts, request = factories.hosts(6), factories.request()
    profile = Profile((), weighers, host_subset_size=subset)
    decision = decide(profile, hosts, request, random.Random(seed))
    made = summarize(decision)
    picked = decision.ranked.host[0]
    is_best = decision.totals[0] == decision.totals.max()
    for weigher in weighers:
        others = Profile((), [each for each in weighers if each is not weigher])
        without = decide(others, hosts, request, random.Random(seed))
        totals = dict(zip(without.ranked.host.tolist(), without.totals, strict=True))
        ahead = max(totals.values()) - totals[picked]
        found = made.decisive.get(weigher.name)
        if is_best and ahead > 1e-9:
            assert totals[found] == pytest.approx(max(totals.values()))
        elif not is_best or ahead == 0:
            assert found is None


# -- names of hosts


@pytest.mark.parametrize(
    ('hosts', 'nodes', 'names'),
    [
        ([], [], []),
        (['a', 'b'], ['n1', 'n2'], ['a', 'b']),
        (['a', 'b', 'a'], ['n1', 'n2', 'n3'], ['a/n1', 'b', 'a/n3']),
    ],
)
def test_names_tell_the_nodes_of_one_host_apart(hosts, nodes, names):
    found = host_names(factories.objects(hosts), factories.objects(nodes))
    assert found == names
