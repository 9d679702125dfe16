# SPDX-License-Identifier: Apache-2.0
"""Claims are kept together, or undone together, whatever ends the block."""

from __future__ import annotations

import contextlib
import itertools
import logging

import pytest

from novasched import errors
from novasched.claiming.claims import CHUNK, Claims, chunks
from novasched.claiming.request import (
    Again,
    RequestAttempt,
    ScheduleRequest,
    UnresolvedClaim,
)
from novasched.objects.context import RequestContext
from novasched.outages import PLACEMENT
from novasched.ports import (
    NO_CALLER,
    STANDS,
    UNDO_WITHIN_S,
    CallerGone,
    Candidates,
    ClaimRequest,
    ClaimUnknown,
)
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeCaller, FakeJournal, FakePlacement, candidate
from tests.support.tables.cases import cases

BEFORE = {'allocations': {'source': {'resources': {'VCPU': 1}}}}


@pytest.fixture
def context():
    return RequestContext(user_id='caller', overwrite=False)


def claims_of(placement, context, journal=None, summaries=(), **values):
    candidates = Candidates((), '1.36', dict(summaries))
    request = ScheduleRequest(context, None, candidates=candidates, **values)
    return Claims(placement, request, journal)


def is_granted(retry):
    """Go on, or end, as a driver does."""
    if retry is not None and retry.again is Again.NOWHERE:
        raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
    return retry is None


def claim_all(placement, context, count=3, then=None, recorder=NO_RECORDER):
    """Claim for instances a, b, c ...; then raise."""
    made = []
    with claims_of(placement, context, recorder=recorder) as claims:
        for name in 'abcdefgh'[:count]:
            request = factories.request(instance_uuid=name)
            retry = claims.make(request, candidate(f'host-of-{name}'))
            made.append(is_granted(retry))
        if then is not None:
            raise then
    return made


def test_claims_stay_when_the_block_ends_well(context):
    placement = FakePlacement()
    assert claim_all(placement, context) == [True, True, True]
    assert list(placement.held) == ['a', 'b', 'c']
    assert placement.undone == []


@cases(
    'problem',
    ('no valid host', errors.NoValidHost('none')),
    ('an unexpected error', RuntimeError('a filter broke')),
    ('the operator interrupts', KeyboardInterrupt()),
    ('the process exits', SystemExit(1)),
)
def test_every_error_undoes_all_claims_the_last_one_first(context, problem):
    placement = FakePlacement()
    with pytest.raises(type(problem)) as raised:
        claim_all(placement, context, then=problem)
    assert raised.value is problem
    assert placement.held == {}
    assert [consumer for consumer, _ in placement.undone] == ['c', 'b', 'a']


def test_a_claim_that_raises_undoes_the_earlier_ones(context):
    problem = errors.AllocationUpdateFailed('c', 'changed')
    placement = FakePlacement(script=['claimed', 'claimed', problem])
    with pytest.raises(errors.AllocationUpdateFailed):
        claim_all(placement, context)
    assert placement.held == {}
    assert [consumer for consumer, _ in placement.undone] == ['b', 'a']


@cases(
    'in_flight, problem, is_waited_for',
    ('an earlier one is written just now', {'a'}, errors.AllocationUpdateFailed, True),
    ('somebody else is at work', {'b'}, errors.AllocationUpdateFailed, False),
    ('it holds something already', {'a'}, errors.AlreadyClaimed, False),
)
def test_own_late_claim_that_changes_the_consumer_is_waited_for(
    context, in_flight, problem, is_waited_for
):
    placement = FakePlacement(script=[problem('a', 'changed')])
    attempt = RequestAttempt(in_flight=frozenset(in_flight))
    claims = claims_of(placement, context, attempt=attempt)
    with pytest.raises(problem), claims:
        claims.make(factories.request(instance_uuid='a'), candidate('p'))
    assert list(attempt.unavailable) == [PLACEMENT] * is_waited_for


def test_a_failing_undo_keeps_no_other_from_being_undone(context, caplog):
    placement = FakePlacement()
    placement.unundone = {'a'}
    with pytest.raises(errors.NoValidHost):
        claim_all(placement, context, then=errors.NoValidHost(''))
    assert list(placement.held) == ['a']
    (line,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert 'openstack resource provider allocation delete a' in line.getMessage()


def test_a_defect_amid_a_claim_names_its_consumer(context, caplog):
    with pytest.raises(KeyError):
        claim_all(FakePlacement(script=['claimed', KeyError('defect')]), context)
    (line,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert line.getMessage().startswith('Allocations of b may be left behind')


class UndoneClaims(DecisionRecorder):
    """Keeps the outcomes of claims; those that are left behind are ``unknown``."""

    def __init__(self):
        self.outcomes = []

    def claimed(self, wanted, outcome, text):
        self.outcomes.append(([one.consumer_uuid for one in wanted], outcome, text))


def test_rollback_is_recorded_with_each_failed_undo(context):
    placement, recorder = FakePlacement(), UndoneClaims()
    placement.unundone = {'a'}
    with pytest.raises(errors.NoValidHost):
        claim_all(placement, context, then=errors.NoValidHost(''), recorder=recorder)
    claimed = [([name], 'claimed', '') for name in 'abc']
    (*before, (left, outcome, text)) = recorder.outcomes
    assert before == [*claimed, (['c', 'b'], 'undone', '')]
    assert (left, outcome, bool(text)) == (['a'], 'unknown', True)


def test_rollback_after_the_answer_is_not_recorded(context):
    recorder, caller = UndoneClaims(), FakeCaller()
    placement = FakePlacement()
    with claims_of(placement, context, caller=caller, recorder=recorder) as claims:
        claims.make(factories.request(instance_uuid='a'), candidate('host-of-a'))
    claims._undo_unread()
    assert placement.held == {}
    assert recorder.outcomes == [(['a'], 'claimed', '')]


def test_all_are_undone_by_one_call(context):
    calls = []

    class Counting(FakePlacement):
        def undo(self, context, claims, within_s=None, **more):
            calls.append(within_s)
            return super().undo(context, claims)

    with pytest.raises(errors.NoValidHost):
        claim_all(Counting(), context, then=errors.NoValidHost(''))
    assert calls == [UNDO_WITHIN_S]


def test_the_claims_of_an_interrupted_undo_stay_in_the_journal(context):
    class Interrupted(FakePlacement):
        def undo(self, context, claims, within_s=None, **more):
            raise KeyboardInterrupt

    told = journalled(Interrupted(), context, then=errors.NoValidHost(''))
    assert told == [('a', 'left')]


def test_rollback_restores_what_the_consumer_held_before(context):
    placement = FakePlacement(before=BEFORE)
    with contextlib.suppress(errors.NoValidHost):
        claim_all(placement, context, 1, then=errors.NoValidHost(''))
    assert placement.undone == [('a', BEFORE)]


def test_a_refused_claim_is_false_and_nothing_is_undone(context):
    placement = FakePlacement(script=['refused'])
    assert claim_all(placement, context, 1) == [False]
    assert placement.undone == []


def test_a_claim_of_unknown_outcome_is_undone_at_once_and_ends_all(context):
    placement = FakePlacement(script=['claimed', 'unknown'], before=BEFORE)
    with pytest.raises(errors.AllocationUpdateFailed) as raised:
        claim_all(placement, context)
    assert 'consumer b. Error: placement did not answer' in str(raised.value)
    assert placement.undone == [('b', BEFORE), ('a', BEFORE)]
    assert placement.held == {}


def test_a_claim_of_unknown_outcome_that_cannot_be_undone_ends_all(context):
    placement = FakePlacement(script=['claimed', 'unknown'])
    placement.unundone = {'b'}
    with pytest.raises(errors.AllocationUpdateFailed, match='may be left behind'):
        claim_all(placement, context)
    assert [consumer for consumer, _ in placement.undone] == ['b', 'a']
    assert list(placement.held) == ['b']


@pytest.mark.parametrize('number', [1, 2])
def test_a_placement_that_cannot_be_reached_ends_all(context, number):
    placement = FakePlacement(script=['unreachable'])
    placement.together = 'unreachable'
    claim = claim_all if number == 1 else claim_together
    with pytest.raises(errors.NoValidHost, match='not enough'):
        claim(placement, context)
    assert len(placement.tried + placement.tried_together) == 1


@cases(
    'values, user',
    ('the user of the request', {'user_id': 'owner'}, 'owner'),
    ('else the user who calls', {'user_id': None}, 'caller'),
)
def test_allocations_belong_to_the_owner_of_the_instance(context, values, user):
    placement = FakePlacement()
    with claims_of(placement, context) as claims:
        claims.make(factories.request(**values), candidate('one'))
    assert placement.owner == ('project', user)


def claim_together(placement, context, names='ab', **values):
    wanted = [ClaimRequest(name, candidate('host')) for name in names]
    with claims_of(placement, context) as claims:
        return is_granted(claims.make_all(factories.request(**values), wanted))


def test_several_are_claimed_together(context):
    placement = FakePlacement()
    assert claim_together(placement, context, user_id=None) is True
    assert list(placement.held) == ['a', 'b']
    assert placement.owner == ('project', 'caller')


def test_several_are_refused_together(context):
    placement = FakePlacement()
    placement.together = 'refused'
    assert claim_together(placement, context) is False
    assert placement.undone == []


def test_joint_claims_of_unknown_fate_are_all_rolled_back(context):
    placement = FakePlacement()
    placement.together = 'unknown'
    with pytest.raises(errors.AllocationUpdateFailed):
        claim_together(placement, context)
    assert [consumer for consumer, _ in placement.undone] == ['b', 'a']


def test_claims_are_logged_before_they_are_tried(context, caplog):
    caplog.set_level(logging.DEBUG, 'novasched')
    claim_all(FakePlacement(), context, 1)
    claim_together(FakePlacement(), context, 'bc')
    assert [line for line in caplog.messages if line.startswith('Attempting')] == [
        f'Attempting to claim resources in the placement API for instance {name}'
        for name in 'abc'
    ]


def test_room_is_taken_by_what_is_claimed_and_known_to_lack_by_what_is_refused(context):
    room = {'x': {'resources': {'VCPU': {'capacity': 2, 'used': 0}}}}
    placement = FakePlacement(script=['claimed', 'refused'])
    request = factories.request()
    with claims_of(placement, context, summaries=room) as claims:
        claims.make(request, candidate('x'))
        assert claims.remaining.fits(candidate('x'))
        claims.make(request, candidate('y'))
        assert not claims.remaining.fits(candidate('y'))
        claims.make_all(request, [ClaimRequest('c', candidate('x'))])
        assert not claims.remaining.fits(candidate('x'))


# -- adopted


def adopting(context, caller, journal, then=None):
    """Adopt a claim that stands; return the attempt that does."""
    (wanted,) = wanted_on(['h'])
    consumer = wanted.consumer_uuid
    (entry,) = journal.intend([wanted])
    claim = ClaimUnknown(consumer, 'no answer')
    lost = UnresolvedClaim(claim, STANDS, entry, wanted, '1.36')
    attempt = RequestAttempt(adopts={consumer: lost}, lost=[lost])
    placement = FakePlacement()
    claims = claims_of(placement, context, journal, caller=caller, attempt=attempt)
    with claims:
        request = factories.request(instance_uuid=consumer)
        assert is_granted(claims.make(request, wanted.candidate))
        claims.check_caller()
        if then is not None:
            raise then
    assert (placement.tried, placement.undone) == ([], [])
    return attempt


@cases(
    'is_read, told',
    ('it is read', True, [('0', 'answering'), ('0', 'settled')]),
    ('nobody reads it', False, [('0', 'answering'), ('0', 'settled')]),
)
def test_an_adopted_claim_is_settled_once_its_answer_has_an_end(
    context, is_read, told, caplog
):
    caller, journal = FakeCaller(), FakeJournal()
    assert adopting(context, caller, journal).lost == []
    assert journal.told == told[:1]
    end = caller.answered if is_read else caller.undeliverable
    end()
    assert journal.told == told
    kept = [each for each in caplog.messages if 'Allocations of 0 are kept' in each]
    assert len(kept) == (not is_read)


def test_an_adopted_claim_without_an_answer_is_lost_still(context):
    journal, gone = FakeJournal(), FakeCaller(CallerGone('hung up'))
    with pytest.raises(CallerGone):
        adopting(context, gone, journal)
    with pytest.raises(KeyError):
        adopting(context, FakeCaller(), journal, KeyError('a defect'))
    assert journal.told == []


# -- many, in chunks

FIRST, SECOND, LAST = '0', str(CHUNK), str(3 * CHUNK - 1)
"""Consumers in the first chunk, the second and the third."""


def wanted_on(hosts):
    """Claims of consumers 0, 1, 2 ... from providers."""
    return [
        ClaimRequest(str(n), candidate(*names.split())) for n, names in enumerate(hosts)
    ]


def claim_many(placement, context, count=3 * CHUNK, journal=None, caller=NO_CALLER):
    wanted = wanted_on(f'h{n}' for n in range(count))
    with claims_of(placement, context, journal, caller=caller) as claims:
        return is_granted(claims.make_all(factories.request(), wanted))


def numbers(count):
    return [str(n) for n in range(count)]


@cases(
    'hosts, expected',
    ('no more than a chunk', ['a', 'b', 'a'], ['0 1 2']),
    ('in their order', ['a', 'b', 'c', 'd'], ['0 1 2', '3']),
    ('hosts are whole', ['a', 'b', 'c', 'a', 'b', 'c'], ['0 3', '1 4', '2 5']),
    ('a full chunk', ['a', 'b', 'a', 'b', 'b'], ['0 2', '1 3 4']),
    ('a host for two chunks', ['a', 'b', 'a', 'a', 'a'], ['0 2 3', '4 1']),
    ('they share storage', ['s a', 's b', 's a', 's b'], ['0 2', '1 3']),
    ('providers in hosts', ['a a1', 'b b1', 'a a2', 'b b2'], ['0 2', '1 3']),
)
def test_claims_for_one_host_go_in_one_chunk(hosts, expected):
    found = chunks(wanted_on(hosts), 3)
    assert [' '.join(one.consumer_uuid for one in each) for each in found] == expected


@pytest.mark.parametrize(('count', 'requests'), [(CHUNK, 1), (CHUNK + 1, 2)])
def test_up_to_a_chunk_is_one_request(context, count, requests):
    placement = FakePlacement()
    assert claim_many(placement, context, count)
    assert len(placement.tried_together) == requests
    assert list(itertools.chain(*placement.tried_together)) == numbers(count)
    assert list(placement.held) == numbers(count)


def test_a_chunk_that_is_refused_undoes_those_before_and_ends_all(context):
    placement, journal = FakePlacement(), FakeJournal()
    placement.together = {SECOND: 'refused'}
    assert claim_many(placement, context, journal=journal) is False
    assert placement.held == {}
    assert [one for one, _ in placement.undone] == numbers(CHUNK)[::-1]
    begun = numbers(2 * CHUNK)
    assert list(itertools.chain(*placement.tried_together)) == begun
    assert [one.consumer_uuid for one in journal.intents] == begun
    assert sorted(journal.told) == sorted((one, 'settled') for one in begun)


@cases(
    'outcome, error',
    ('unknown', 'unknown', errors.AllocationUpdateFailed),
    ('not reached', 'unreachable', errors.NoValidHost),
    ('a defect', KeyError('defect'), KeyError),
)
def test_a_chunk_that_fails_undoes_those_before_and_ends_all(context, outcome, error):
    placement = FakePlacement()
    placement.together = {SECOND: outcome}
    with pytest.raises(error):
        claim_many(placement, context)
    assert placement.held == {}
    assert FIRST in [consumer for consumer, _ in placement.undone]
    assert len(placement.tried_together) == 2


def test_a_chunk_is_written_down_before_it_is_sent(context):
    journal, known = FakeJournal(), []

    class Writing(FakePlacement):
        def claim_all(self, *args):
            known.append([one.consumer_uuid for one in journal.intents])
            return super().claim_all(*args)

    claim_many(Writing(), context, journal=journal)
    assert known == [numbers(count * CHUNK) for count in (1, 2, 3)]


def test_no_more_chunks_are_claimed_for_a_caller_that_is_gone(context):
    placement = FakePlacement()
    with pytest.raises(CallerGone):
        claim_many(placement, context, caller=FakeCaller(CallerGone('hung up')))
    assert len(placement.tried_together) == 1
    assert placement.held == {}


def test_a_chunk_that_cannot_be_undone_gets_no_other_host(context):
    placement = FakePlacement()
    placement.together = {LAST: 'refused'}
    placement.unundone = {FIRST}
    with pytest.raises(errors.AllocationUpdateFailed, match='may be left behind'):
        claim_many(placement, context)
    assert list(placement.held) == [FIRST]


def test_too_little_for_one_chunk_is_too_little_for_all_of_them(context):
    placement = FakePlacement()
    placement.together = {SECOND: 'refused'}
    placement.together_exhausted = ('h', 'VCPU')
    wanted = wanted_on(['h'] * (CHUNK + 1))
    with claims_of(placement, context) as claims:
        assert claims.make_all(factories.request(), wanted) is not None
        candidates = [one.candidate for one in wanted]
        assert not claims.remaining.fits_all(candidates)
        assert claims.remaining.fits_all(candidates[1:])


# -- the journal


def journalled(placement, context, then=None, caller=NO_CALLER, journal=None):
    """Claim for an instance, with a journal; return what was told to it."""
    journal = journal or FakeJournal()
    ends = contextlib.suppress(errors.RequestError, KeyboardInterrupt)
    with ends, claims_of(placement, context, journal, caller=caller) as claims:
        claims.make(factories.request(instance_uuid='a'), candidate('p'))
        claims.check_caller()
        if then is not None:
            raise then
    return journal.told


def test_claims_whose_answer_reaches_no_reader_are_undone(context):
    placement, caller, journal = FakePlacement(), FakeCaller(), FakeJournal()
    forgotten = []
    with claims_of(placement, context, journal, caller=caller) as claims:
        claims.if_undone.append(lambda: forgotten.append('a'))
        claims.make(factories.request(instance_uuid='a'), candidate('p'))
    assert list(placement.held) == ['a']
    caller.undeliverable()
    assert placement.held == {}
    assert journal.told == [('a', 'answering'), ('a', 'settled')]
    assert forgotten == ['a']


def test_an_answer_without_claims_may_reach_no_reader(context):
    caller = FakeCaller()
    with claims_of(FakePlacement(), context, caller=caller):
        pass
    caller.undeliverable()


@cases(
    'script, expected',
    ('refused', 'refused', [('a', 'settled')]),
    ('not sent', 'unreachable', [('a', 'settled')]),
    ('unknown, thus undone', 'unknown', [('a', 'settled')]),
    (
        'changed by another process',
        errors.AllocationUpdateFailed('a', 'changed'),
        [('a', 'settled')],
    ),
    ('interrupted', KeyboardInterrupt(), [('a', 'left')]),
)
def test_the_journal_learns_how_a_claim_ends(context, script, expected):
    assert journalled(FakePlacement(script=[script]), context) == expected


def test_claims_for_several_are_written_down_together(context):
    journal, wanted = FakeJournal(), [ClaimRequest(u, candidate('p')) for u in 'ab']
    placement = FakePlacement()
    placement.together = 'refused'
    with claims_of(placement, context, journal) as claims:
        claims.make_all(factories.request(), wanted)
    assert [one.consumer_uuid for one in journal.intents] == ['a', 'b']
    assert journal.told == [('a', 'settled'), ('b', 'settled')]


def test_failed_rollback_is_handed_to_recovery(context, caplog):
    placement = FakePlacement()
    placement.unundone = {'a'}
    told = journalled(placement, context, then=errors.NoValidHost(''))
    assert told == [('a', 'to be undone')]
    assert caplog.messages[-1].startswith('Allocations of a are not undone yet')


def test_a_claim_of_which_a_defect_tells_nothing_is_undone_later(context):
    placement = FakePlacement(script=[KeyError()])
    journal = FakeJournal()
    with pytest.raises(KeyError), claims_of(placement, context, journal) as claims:
        claims.make(factories.request(instance_uuid='a'), candidate('p'))
    assert journal.told == [('a', 'to be undone')]


def test_the_claims_of_a_caller_that_is_gone_are_undone(context):
    placement = FakePlacement()
    told = journalled(placement, context, caller=FakeCaller(CallerGone('hung up')))
    assert placement.held == {}
    assert told == [('a', 'settled')]


def test_request_without_claims_does_not_check_its_caller(context):
    gone = FakeCaller(CallerGone('hung up'))
    with claims_of(FakePlacement(), context, caller=gone) as claims:
        claims.check_caller()
