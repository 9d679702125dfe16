# SPDX-License-Identifier: Apache-2.0
"""Own claims: what they take of the copy, until placement shows it."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.placement_copy.claims import PlacementWithCopy
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.own_claims import MOST
from novasched.ports import Claimed, ClaimRefused, ClaimRequest
from tests.unit.placement_copy.providers import ONE, FakeProviders, hosts, look


class TestOwnClaims:
    def test_they_count_at_once(self, mirror):
        mirror.assume({'server': {'a': {'VCPU': 4}}})
        assert hosts(mirror) == ['b']
        mirror.own_claims.forget(['server', 'another'])
        assert hosts(mirror) == ['a', 'b']

    def test_they_count_once(self, mirror, store, clock):
        clock.advance(1)
        mirror.assume({'server': {'a': {'VCPU': 2}}})
        store.take('a', 2)
        clock.advance(1)
        look(mirror)
        assert hosts(mirror, 2) == ['a', 'b']
        mirror.own_claims.forget(['server'])
        assert hosts(mirror, 3) == ['b']

    def test_one_that_is_newer_than_the_copy_stays(self, mirror, store, clock):
        def claim_meanwhile():
            clock.advance(1)
            mirror.assume({'server': {'a': {'VCPU': 4}}})

        store.change_token = claim_meanwhile
        look(mirror)
        assert hosts(mirror) == ['b']

    def test_of_those_that_no_look_shows_only_the_last_are_remembered(self, mirror):
        mirror.assume({'first': {'a': {'VCPU': 3}}})
        step = (MOST - 1) // 9
        for number in range(1, 10):
            names = range((number - 1) * step, number * step)
            mirror.assume({f's{n}': {'b': {'VCPU': 0}} for n in names})
            assert mirror.state()['claims assumed'] == number * step + 1
        mirror.assume({'last': {'a': {'VCPU': 1}}})
        assert mirror.state()['claims assumed'] == MOST
        mirror.own_claims.forget(['first', 'last'])
        assert hosts(mirror) == ['a', 'b']
        assert hosts(mirror, 2) == ['b']

    def test_several_of_one_provider_are_summed(self, mirror):
        mirror.assume({n: {'a': {'VCPU': 2}} for n in ('one', 'two')})
        assert hosts(mirror) == ['b']
        assert mirror.candidates(ONE).summaries['a']['resources']['VCPU']['used'] == 4


class TestReload:
    """Two schedulers of a process have a copy each for a while."""

    @pytest.fixture
    def successor(self, mirror, clock):
        """The copy of the next scheduler, as old as what another process has read."""
        store = FakeProviders(a=4, b=4)
        store.behind_s = 10.0
        made = CopyKeeper(store, clock, own_claims=mirror.own_claims)
        clock.advance(1)
        mirror.assume({'before': {'a': {'VCPU': 2}}})
        clock.advance(1)
        made.keep_up()
        return made

    def test_the_next_copy_shows_claims_of_before(self, mirror, successor, store):
        assert hosts(successor, 3) == ['b']
        store.take('a', 2)
        look(mirror)
        look(successor)
        assert hosts(mirror, 2) == hosts(successor, 2) == ['a', 'b']
        assert hosts(mirror, 3) == hosts(successor, 3) == ['b']

    def test_each_copy_shows_claims_of_both(self, mirror, successor):
        successor.assume({'later': {'b': {'VCPU': 3}}})
        assert hosts(mirror, 2) == hosts(successor, 2) == ['a']

    def test_each_frees_what_it_counts(self, mirror, successor, store):
        store.take('a', 2)
        look(mirror)
        mirror.own_claims.forget(['before'])
        assert hosts(mirror, 3) == ['b']  # until it looks again
        assert hosts(successor, 3) == ['a', 'b']

    def test_none_is_kept_for_a_copy_that_has_ended(self, mirror, successor, clock):
        look(mirror)
        assert len(mirror.own_claims) == 1
        successor.stop()
        look(mirror)
        assert len(mirror.own_claims) == 0


class TestMirroredPlacement:
    class Inner:
        outcome = None

        def claim(self, context, wanted, *args):
            return self.outcome

        def claim_all(self, context, wanted, *args):
            return self.outcome

        def undo(self, context, claims, within_s, keeps_unknown=False):
            return {'two': 'why'}

        def aggregates(self, context, uuid):
            return frozenset(['of placement'])

        def candidates(self, context, query):
            return query

        def holders(self, context, consumers, mine, among=None):
            return {each: ['of placement'] for each in consumers}

        def usages(self, context, mine):
            return 'of placement'

    @pytest.fixture
    def inner(self):
        return self.Inner()

    @pytest.fixture
    def placement(self, inner, mirror):
        return PlacementWithCopy(inner, mirror)

    @pytest.mark.parametrize(
        ('known', 'expected'),
        [
            ({'me': {'a'}, 'one': {'b'}}, {'one': {'b'}}),
            ({'one': {'b'}}, {'one': ['of placement']}),
            ({'me': {'z'}, 'one': {'b'}}, {'one': ['of placement']}),
            (None, {'one': ['of placement']}),
        ],
        ids=[
            'it shows my own',
            'a replica that is behind',
            'behind my move',
            'it is not read here',
        ],
    )
    def test_holders_come_from_the_copy_only_if_certain(
        self, placement, store, known, expected
    ):
        store.holders = lambda consumers: known
        assert placement.holders(None, ['one'], {'me': 'a'}) == expected

    def test_usages_are_read_where_that_is_certain(self, placement, store):
        store.usages = {'a': {'a': {'VCPU': 3}}}.get
        assert placement.usages(None, 'a') == {'a': {'VCPU': 3}}
        assert placement.usages(None, 'another') == 'of placement'

    def test_a_database_that_fails_is_not_believed(self, placement, store):
        def fail(consumers):
            raise errors.StoreFailed('Placement', 'away')

        store.holders = store.usages = fail
        found = placement.holders(None, ['one'], {'me': 'a'})
        assert found == {'one': ['of placement']}
        assert placement.usages(None, {'a': 'me'}) == 'of placement'

    WANTED = ClaimRequest('one', {'allocations': {'a': {'resources': {'VCPU': 4}}}})

    def test_a_claim_is_counted(self, placement, inner, mirror):
        inner.outcome = Claimed('one')
        assert placement.claim(None, self.WANTED) == inner.outcome
        assert hosts(mirror) == ['b']

    def test_a_joint_claim_is_counted_until_it_is_undone(
        self, placement, inner, mirror
    ):
        inner.outcome = [Claimed('one'), Claimed('two')]
        half = {'allocations': {'a': {'resources': {'VCPU': 2}}}}
        wanted = [ClaimRequest(name, half) for name in ('one', 'two')]
        assert placement.claim_all(None, wanted, '1.36', 'p', 'u') == inner.outcome
        assert hosts(mirror) == ['b']
        placement.undo(None, inner.outcome, 1.0)
        assert hosts(mirror, 2) == ['a', 'b']
        assert hosts(mirror, 3) == ['b']

    @pytest.mark.parametrize('exhausted', [None, ('a', 'VCPU')])
    def test_a_refused_claim_makes_its_providers_be_read(
        self, placement, inner, mirror, store, exhausted
    ):
        inner.outcome = ClaimRefused(409, 'no', exhausted)
        placement.claim(None, self.WANTED)
        mirror.keep_up()
        assert store.reads == [('changes', [1])]
        assert hosts(mirror) == ['a', 'b']

    def test_aggregates_come_from_the_copy(self, placement):
        assert placement.aggregates(None, 'a') == {'aggregate'}
        assert placement.aggregates(None, 'b') == frozenset()
        assert placement.aggregates(None, 'new') == {'of placement'}

    def test_queries_go_to_placement(self, placement):
        assert placement.candidates(None, 'q') == 'q'
