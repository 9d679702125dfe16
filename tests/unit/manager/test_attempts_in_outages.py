# SPDX-License-Identifier: Apache-2.0
"""A request waits for what is away, and undoes what it left before it is decided from
the start."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.claiming.request import RequestAttempt, UnresolvedClaim
from novasched.manager.attempts import HandedToSuccessor, OutageRetry
from novasched.objects.context import RequestContext
from novasched.outages import PLACEMENT
from novasched.ports import (
    MAY_ARRIVE,
    STANDS,
    CallerGone,
    Candidates,
    Cell,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    UndoLeft,
)
from novasched.ports.decisions import DecisionRecorder
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    FakeCaller,
    FakeJournal,
    FakePlacement,
    FakeView,
    FastClock,
    FastOutages,
    schedule_request,
)
from tests.support.tables.cases import cases

FAR = Cell('far', 'far', None, None, disabled=False)
GONE = ClaimRefused(503, 'away', is_unavailable=True)
NO_HOST = errors.NoValidHost('no host')
CANDIDATE = {'allocations': {'h1': {'resources': {'VCPU': 1}}}}
WANTED = ClaimRequest('c', CANDIDATE, 'node')
OTHER = ClaimRequest('c', {'allocations': {'h2': {'resources': {'VCPU': 1}}}})
LATE = errors.AlreadyClaimed('c', 'it holds allocations already')
SILENT = errors.StoreFailed('The API database', 'gone', unavailable='the API database')


class Recorder(DecisionRecorder):
    """Keeps what a request has waited for."""

    def __init__(self):
        self.notes = []

    def waited(self, unavailable, seconds, *, again):
        self.notes.append((dict(unavailable), again))


class Undoing(FakePlacement):
    """Says of each attempt to undo claims why they are left, as a script says. Claims
    that stand are undone unless they are to be kept."""

    def __init__(self, *answers):
        super().__init__()
        self.answers_left = list(answers)

    def undo(self, context, claims, within_s=None, keeps_unknown=False):
        why = self.answers_left.pop(0) if self.answers_left else None
        left = UndoLeft({claim.consumer_uuid: why for claim in claims if why})
        if why != STANDS:
            super().undo(context, claims, within_s)
        elif keeps_unknown:
            left.standing = [*claims]
        return left


class Scene:
    """A request, what it asks, and what becomes of its attempts, in order."""

    def __init__(self, *outcomes, placement=None, caller=None, patience_s=30.0):
        self.recorder, self.journal = Recorder(), FakeJournal()
        self.placement = placement or Undoing()
        self.view = FakeView(factories.hosts(), cells={'far': FAR})
        self.clock = FastClock()
        probes = lambda service: self.probe  # noqa: E731
        self.outages = FastOutages(patience_s, probes, clock=self.clock)
        self.caller = caller or FakeCaller()
        self.outcomes = list(outcomes)
        self.attempts = []
        self.attempt = RequestAttempt()
        self.instances = ['c']

    @staticmethod
    def probe():
        return True

    def serve(self, attempt):
        self.attempts.append(attempt)
        outcome = self.outcomes.pop(0)
        if callable(outcome):
            outcome = outcome(attempt)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run(self):
        work = schedule_request(
            context=RequestContext(overwrite=False),
            spec=factories.request(),
            uuids=self.instances,
            caller=self.caller,
            recorder=self.recorder,
            attempt=self.attempt,
        )
        made = OutageRetry(self.outages, work, self.placement, self.view, self.clock)
        return made.run(self.serve)

    def loses(self, kind=Claimed):
        """An attempt whose claim cannot be undone."""

        def outcome(attempt):
            attempt.note_unavailable(PLACEMENT, 'no answer in time')
            (entry,) = self.journal.intend([Claimed('c')])
            claim = kind('c', 'lost') if kind is ClaimUnknown else kind('c')
            lost = UnresolvedClaim(claim, 'placement is away', entry, WANTED, '1.36')
            attempt.lost.append(lost)
            return errors.AllocationUpdateFailed('c', 'unknown')

        return outcome


def missing(service, problem='connection refused', failure=NO_HOST):
    def outcome(attempt):
        attempt.note_unavailable(service, problem)
        return failure

    return outcome


def test_successful_attempt_waits_for_nothing():
    scene = Scene('hosts')
    assert scene.run() == 'hosts'
    assert scene.recorder.notes == []
    assert not scene.attempts[0].was_announced


@cases(
    'failed, unavailable',
    ('placement', missing(PLACEMENT), {PLACEMENT: 'connection refused'}),
    ('a database', SILENT, {'the API database': str(SILENT)}),
)
def test_unavailable_service_is_waited_for(failed, unavailable):
    scene = Scene(failed, failed, 'hosts')
    assert scene.run() == 'hosts'
    assert scene.recorder.notes == [(unavailable, True)] * 2
    assert [each.is_admitted for each in scene.attempts] == [False, True, True]
    scene.outages.close()


@cases(
    'second, is_well',
    ('it has served the request', 'hosts', True),
    ('it was not needed, and is away', missing(PLACEMENT, failure='hosts'), False),
)
def test_a_turn_has_gone_well_if_the_service_answered(second, is_well):
    class Turns(FastOutages):
        def done(self, service, is_well):
            gone_well.append(is_well)
            super().done(service, is_well)

    gone_well, scene = [], Scene(missing(PLACEMENT), second)
    scene.outages = Turns(30.0, lambda service: scene.probe, clock=scene.clock)
    assert scene.run() == 'hosts'
    assert gone_well == [is_well]
    scene.outages.close()


def test_a_cell_that_may_have_a_host_for_it_is_waited_for():
    scene = Scene(NO_HOST, 'hosts')
    scene.view.silent = {'far'}
    assert scene.run() == 'hosts'
    unavailable = {'the database of cell far': 'it does not answer'}
    assert scene.recorder.notes == [(unavailable, True)]
    scene.outages.close()


@cases(
    'outcome, more',
    ('nothing is away', NO_HOST, {}),
    ('its caller has gone', missing(PLACEMENT, failure=CallerGone('gone')), {}),
    ('nobody waits', missing(PLACEMENT), {'patience_s': 0.0}),
    (
        'its caller soon gives up',
        missing(PLACEMENT),
        {'caller': FakeCaller(answer_left_s=1.0)},
    ),
)
def test_request_without_patience_or_outage_fails_at_once(outcome, more):
    scene = Scene(outcome, **more)
    with pytest.raises(errors.RequestError):
        scene.run()
    assert [again for _, again in scene.recorder.notes] in ([], [False])
    assert len(scene.attempts) == 1


def test_a_failure_lets_go_of_what_its_attempt_has_read():
    scene = Scene(missing(PLACEMENT), missing(PLACEMENT), 'hosts')
    scene.run()
    assert NO_HOST.__traceback__ is None
    scene.outages.close()


def test_a_defect_that_is_not_waited_for_keeps_its_traceback():
    def defect(attempt):
        try:
            raise KeyError('a defect')
        except KeyError as problem:
            raise errors.ExtensionFailed('OddFilter', problem) from problem

    with pytest.raises(errors.ExtensionFailed) as failed:
        Scene(defect).run()
    assert failed.value.problem.__traceback__ is not None


@cases(
    'kind',
    ('a claim', Claimed),
    ('one whose fate is unknown', ClaimUnknown),
)
def test_a_lost_claim_is_undone_before_the_next_attempt(kind):
    scene = Scene('hosts')
    scene.outcomes.insert(0, scene.loses(kind))
    assert scene.run() == 'hosts'
    assert [consumer for consumer, _ in scene.placement.undone] == ['c']
    scene.caller.answered()
    assert scene.journal.told[-1] == ('c', 'settled')
    assert scene.attempts[0].retries_rollback
    scene.outages.close()


def test_placement_that_is_away_again_is_waited_for_again():
    scene = Scene('hosts', placement=Undoing('away', 'away'))
    scene.outcomes.insert(0, scene.loses())
    assert scene.run() == 'hosts'
    assert len(scene.placement.undone) == 3
    assert scene.journal.told == [('c', 'settled')]
    scene.outages.close()


@cases(
    'why, told',
    ('it is there still', 'away', 'to be undone'),
    ('it seems to be undone', None, 'settled'),
)
def test_an_undo_that_may_be_carried_out_later_ends_it(why, told):
    class Unsure(Undoing):
        def undo(self, context, claims, within_s=None, **more):
            left = super().undo(context, claims, within_s, **more)
            left.unsure.add('c')
            return left

    scene = Scene(placement=Unsure(why))
    scene.outcomes = [scene.loses()]
    with pytest.raises(errors.AllocationUpdateFailed):
        scene.run()
    assert scene.journal.told == [('c', told)]
    scene.outages.close()


def test_a_claim_that_may_arrive_is_settled_with_the_answer():
    scene = Scene(placement=Undoing(MAY_ARRIVE))
    scene.outcomes = [
        scene.loses(ClaimUnknown),
        lambda attempt: 'hosts' if scene.journal.told == [] else NO_HOST,
    ]
    assert scene.run() == 'hosts'
    assert scene.journal.told == [('c', 'answering')]
    scene.caller.answered()
    assert scene.journal.told[1:] == [('c', 'settled')]
    scene.outages.close()


def test_a_claim_that_may_arrive_is_undone_later_if_the_answer_reaches_no_reader():
    """What barred it is undone, too."""
    scene = Scene(placement=Undoing(MAY_ARRIVE))
    scene.outcomes = [scene.loses(ClaimUnknown), 'hosts']
    assert scene.run() == 'hosts'
    scene.caller.undeliverable()
    assert scene.journal.told == [('c', 'answering'), ('c', 'to be undone')]
    scene.outages.close()


@cases(
    'looks, attempts',
    ('at the first look', [STANDS], []),
    ('late', [MAY_ARRIVE, STANDS], [LATE]),
    ('placement is away again', ['away', STANDS], []),
)
def test_a_lost_claim_that_stands_is_adopted(looks, attempts):
    scene = Scene(placement=Undoing(*looks))
    scene.outcomes = [scene.loses(ClaimUnknown), *attempts, 'hosts']
    assert scene.run() == 'hosts'
    *before, last = scene.attempts
    summaries = {'h1': {'root_provider_uuid': 'node'}}
    assert last.adopted == Candidates([CANDIDATE], '1.36', summaries)
    assert last.adopted.summaries == summaries
    assert (last.may_claim(WANTED), last.may_claim(OTHER)) == (True, False)
    assert all(each.may_claim(OTHER) for each in before)
    assert all(each.adopted is None for each in before)
    assert len(scene.placement.undone) == len(looks) - 1
    scene.caller.answered()
    assert scene.journal.told[-1] == ('c', 'settled')
    scene.outages.close()


@cases(
    'failure',
    ('the host is not fit any more', NO_HOST),
    ('its caller has gone', CallerGone('gone')),
    ('a defect', KeyError('a defect')),
)
def test_a_lost_claim_that_stands_is_not_undone_by_a_request_that_fails(
    failure, caplog
):
    scene = Scene(placement=Undoing(STANDS))
    scene.outcomes = [scene.loses(ClaimUnknown), failure]
    with pytest.raises(type(failure)):
        scene.run()
    assert (scene.placement.undone, scene.journal.told) == ([], [('c', 'settled')])
    assert any('Allocations of c are kept' in each for each in caplog.messages)
    scene.outages.close()


def test_lost_claims_that_stand_for_some_instances_alone_are_undone():
    scene = Scene(placement=Undoing(STANDS))
    scene.instances = ['c', 'd']
    scene.outcomes = [scene.loses(ClaimUnknown), 'hosts']
    assert scene.run() == 'hosts'
    assert [consumer for consumer, _ in scene.placement.undone] == ['c']
    assert scene.attempts[-1].adopted is None
    scene.outages.close()


def test_rolled_back_claim_is_not_rolled_back_again():
    class Asked(Undoing):
        def undo(self, context, claims, within_s=None, keeps_unknown=False):
            asked.append([claim.consumer_uuid for claim in claims])
            unknown = [each for each in claims if isinstance(each, ClaimUnknown)]
            left = UndoLeft(dict.fromkeys(['d'], STANDS) if keeps_unknown else {})
            left.standing = unknown if keeps_unknown else []
            return left

    def loses_two(attempt):
        attempt.note_unavailable(PLACEMENT, 'no answer in time')
        for claim in (Claimed('c'), ClaimUnknown('d', 'lost')):
            lost = UnresolvedClaim(claim, 'placement is away', None, WANTED, '1.36')
            attempt.lost.append(lost)
        return errors.AllocationUpdateFailed('d', 'unknown')

    asked, scene = [], Scene(loses_two, 'hosts', placement=Asked())
    scene.instances = ['c', 'd']
    assert scene.run() == 'hosts'
    assert asked == [['c', 'd'], ['d']]
    scene.outages.close()


@cases(
    'failure',
    ('nobody waits for placement', errors.AllocationUpdateFailed('c', 'unknown')),
    ('its caller has gone', CallerGone('gone')),
    ('a defect', KeyError('a defect')),
)
@cases(
    'answers, told',
    ('placement answers', [], 'settled'),
    ('placement is away again', ['away'], 'to be undone'),
)
def test_a_claim_that_stands_is_rolled_back_where_no_attempt_follows(
    failure, answers, told, caplog
):
    def loses(attempt):
        scene.loses(ClaimUnknown)(attempt)
        attempt.lost[:] = [each._replace(why=STANDS) for each in attempt.lost]
        return failure

    gone = failure if isinstance(failure, CallerGone) else None
    scene = Scene(loses, placement=Undoing(*answers), caller=FakeCaller(gone))
    scene.outages = FastOutages(30.0)
    with pytest.raises(type(failure)):
        scene.run()
    assert [consumer for consumer, _ in scene.placement.undone] == ['c']
    assert scene.journal.told == [('c', told)]
    assert not [each for each in caplog.records if each.levelname == 'ERROR']


@cases(
    'failure',
    ('an error of the request', NO_HOST),
    ('a defect', KeyError('a defect')),
    ('its caller may have sent it again', CallerGone('gone')),
)
def test_recovery_undoes_what_placement_got_before_a_claim_was_given_up(failure):
    scene = Scene(placement=Undoing(MAY_ARRIVE))
    scene.outcomes = [scene.loses(ClaimUnknown), failure]
    with pytest.raises(type(failure)):
        scene.run()
    assert scene.journal.told == [('c', 'to be undone')]
    assert scene.journal.made_s_ago != [0.0]
    scene.outages.close()


def test_waiting_request_is_handed_to_the_successor():
    scene = Scene(missing(PLACEMENT))
    scene.probe = lambda: False
    scene.caller.check = lambda: scene.outages.close('another')
    assert scene.run() == HandedToSuccessor('another', scene.attempts[-1])


@cases('is_back', ('it is back', True), ('it stays away', False))
def test_successor_rolls_back_the_lost_claim(is_back):
    """Which looks by itself before it decides, in the order in which all came."""
    before, after = Scene(), Scene('host', patience_s=0.5)
    before.outcomes = [before.loses()]
    before.probe = lambda: False
    before.caller.check = lambda: before.outages.close('another')
    handed = before.run()
    assert before.journal.told == []
    after.probe = lambda: is_back
    after.attempt = handed.attempt
    if is_back:
        assert after.run() == 'host'
        assert after.placement.undone == [('c', {})]
        assert after.attempts[0].is_admitted
        assert after.attempts[0].came_s == after.attempt.came_s
        assert after.attempts[0].lost == []
    else:
        with pytest.raises(errors.AllocationUpdateFailed, match='placement is away'):
            after.run()
        assert after.attempts == []
        after.outages.close()
    assert before.journal.told == [('c', 'settled' if is_back else 'to be undone')]


def test_a_cell_that_refuses_for_good_is_not_waited_for():
    scene = Scene(NO_HOST)
    scene.view.silent, scene.view.cells.broken = {'far'}, lambda: {'far'}
    with pytest.raises(errors.NoValidHost):
        scene.run()
    assert scene.recorder.notes == []
