# SPDX-License-Identifier: Apache-2.0
"""Records of a shadow wait until it is known what nova chose."""

import pytest

from novasched.db.servers import ServerRow
from novasched.objects.context import RequestContext
from novasched.ports import QueryFailed
from novasched.rpc.tap import Phase
from novasched.scheduler.weighers.resources import RAMWeigher
from novasched.shadow import log
from novasched.shadow.choices import ChoiceFinder
from novasched.shadow.log import LOOKS_S, WITHIN_S, ShadowLog
from novasched.shadow.phases import Phases
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock, FakePlacement
from tests.support.records.recordings import Recorded, Recordings

UUIDS = [f'c0000000-0000-4000-8000-{number:012}' for number in range(600)]


class Cloud(FakePlacement):
    """What servers hold, by uuid, and the states and hosts of their rows."""

    def __init__(self, hosts):
        super().__init__(*hosts.uuid.tolist())
        self._nodes = dict(zip(hosts.host.tolist(), hosts.uuid.tolist(), strict=True))
        self.taken, self.servers, self.questions = {}, {}, 0
        self.fails = self.has_defect = False

    def holders(self, context, consumers, mine, among=None):
        self.questions += 1
        if self.fails:
            return QueryFailed(503, 'it is away')
        return {u: {self._nodes[self.taken[u]]} for u in consumers if u in self.taken}

    def hosts_by_node(self):
        return {node: host for host, node in self._nodes.items()}

    def rows(self, uuids):
        for uuid in uuids:
            if uuid in self.servers:
                state, host = self.servers[uuid]
                yield ServerRow(uuid, 'vm', host, host, state, 'p', 'u', 1, 1, None)

    def faults(self, uuids, since):
        if self.has_defect:
            raise ZeroDivisionError
        return dict.fromkeys(uuids, 'No valid host was found. ')


class Shadowed:
    """Requests that a shadow decides, and its log."""

    def __init__(self, early=None, **options):
        hosts = factories.hosts(free_ram_mb=[9000, 8000])
        self.cloud, self.clock, self.phases = Cloud(hosts), FakeClock(), Phases()
        self.written = Recordings(clock=self.clock)
        finder = ChoiceFinder(self.cloud, self.cloud.hosts_by_node, self.cloud)
        self.log = ShadowLog(
            self.written, finder, self.phases, self.clock, early, **options
        )
        self._asked = Recorded(
            hosts, self.cloud, weighers=[RAMWeigher(1.0)], log=self.log
        )

    def ask(self, *uuids, **values):
        self._asked.ask(uuids, **values)

    def asked_as(self, request_id):
        self._asked.context = RequestContext(request_id=request_id, overwrite=False)

    def look(self, after_s=1.0):
        self.clock.advance(after_s)
        self.log.look()

    @property
    def compared(self):
        """The verdict and the cause of each server of each record."""
        return [
            [(each.verdict, each.cause) for each in record.body.shadow]
            for record in self.written.records
        ]


@pytest.fixture
def shadowed():
    return Shadowed()


def test_record_waits_until_the_server_is_active(shadowed):
    shadowed.ask(UUIDS[0])
    shadowed.look()
    shadowed.cloud.taken[UUIDS[0]] = 'h1'
    shadowed.cloud.servers[UUIDS[0]] = 'building', 'h1'
    shadowed.look()
    assert shadowed.compared == []
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h1'
    shadowed.look()
    assert shadowed.compared == [[('equal', '')]]
    ((found,),) = (each.body.shadow for each in shadowed.written.records)
    assert (found.nova.known_by, found.nova.seen_s) == ('allocation', 2.0)


def test_choice_that_is_never_seen_is_unknown(shadowed):
    shadowed.ask(UUIDS[0])
    for _ in range(int(WITHIN_S) + 1):
        shadowed.look()
    assert shadowed.compared == [[('unknown', '')]]
    assert shadowed.cloud.questions == 1 + len(LOOKS_S)


def test_host_that_is_chosen_stands_although_the_build_lasts(shadowed):
    shadowed.ask(UUIDS[0])
    shadowed.cloud.taken[UUIDS[0]] = 'h2'
    for _ in range(int(WITHIN_S) + 1):
        shadowed.look()
    assert shadowed.compared == [[('better', 'unknown')]]


def test_choices_of_all_servers_are_waited_for(shadowed):
    shadowed.ask(*UUIDS[:2])
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h1'
    shadowed.look()
    assert shadowed.compared == []
    shadowed.cloud.servers[UUIDS[1]] = 'error', None
    shadowed.look()
    assert shadowed.compared == [[('equal', ''), ('ours_only', 'no_candidates')]]


def test_difference_names_the_request_that_took_the_host(shadowed):
    for uuid, host in ((UUIDS[0], 'h1'), (UUIDS[1], 'h2')):
        shadowed.asked_as(f'req-{host}')
        shadowed.ask(uuid)
        shadowed.cloud.servers[uuid] = 'active', host
    shadowed.look()
    assert shadowed.compared == [[('equal', '')], [('better', 'other_request')]]
    (found,) = shadowed.written.records[1].body.shadow
    assert found.detail == 'req-h1'


def test_latency_of_nova_is_what_its_notifications_say(shadowed):
    shadowed.asked_as('req-1')
    shadowed.ask(UUIDS[0])
    for name, at_s in (('start', 5.0), ('end', 5.25)):
        shadowed.phases.add(Phase('req-1', name, at_s))
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h1'
    shadowed.look()
    ((found,),) = (each.body.shadow for each in shadowed.written.records)
    assert found.nova.took_s == 0.25


def test_oldest_requests_are_recorded_where_too_many_wait(shadowed):
    for uuid in UUIDS[: log.MOST_WAITING + 1]:
        shadowed.ask(uuid)
    assert shadowed.compared == [[('unknown', '')]]


def test_close_records_what_waits(shadowed):
    shadowed.ask(UUIDS[0])
    shadowed.log.close()
    assert shadowed.compared == [[('unknown', '')]]


class Early:
    """Takes claims out if it ``shows`` them."""

    def __init__(self, shows):
        self._shows = shows
        self.out = []

    def take_out(self, context, consumers):
        self.out = list(consumers) if self._shows else []
        return self.out

    def put_back(self, consumers):
        assert consumers == self.out
        self.out = None


@pytest.mark.parametrize('shows', [True, False])
def test_early_claim_is_taken_out_for_the_decision_or_named_as_the_cause(shows):
    early = Early(shows)
    shadowed = Shadowed(early)
    shadowed.cloud.taken[UUIDS[0]] = 'h2'
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h2'
    shadowed.ask(UUIDS[0])
    assert early.out is None if shows else early.out == []
    shadowed.look()
    assert shadowed.compared == [[('better', 'unknown' if shows else 'late')]]


def test_host_that_a_move_leaves_is_no_choice(shadowed):
    shadowed.cloud.taken[UUIDS[0]] = 'h1'
    shadowed.ask(UUIDS[0], ignore_hosts=['h1'])
    shadowed.look()
    assert shadowed.compared == []
    shadowed.cloud.taken[UUIDS[0]] = 'h2'
    shadowed.look()
    assert shadowed.compared == [[('equal', '')]]


def test_claim_of_a_move_that_nova_made_early_is_its_choice():
    shadowed = Shadowed(Early(shows=False))
    shadowed.cloud.taken[UUIDS[0]] = 'h2'
    shadowed.ask(UUIDS[0], ignore_hosts=['h1'])
    shadowed.look()
    assert shadowed.compared == [[('equal', '')]]


@pytest.mark.parametrize('first', [True, False])
def test_move_of_which_placement_says_nothing_is_unknown(shadowed, first):
    """It fails at the request, or at each look after it."""
    shadowed.cloud.fails = first
    shadowed.ask(UUIDS[0], ignore_hosts=['h1'])
    shadowed.cloud.fails = not first
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h1'
    for _ in range(int(WITHIN_S) + 1):
        shadowed.look()
    assert shadowed.compared == [[('unknown', '')]]


def test_move_that_claims_nothing_has_found_no_host(shadowed):
    shadowed.ask(UUIDS[0], ignore_hosts=['h2'])
    shadowed.cloud.servers[UUIDS[0]] = 'active', 'h2'
    for _ in range(int(WITHIN_S) + 1):
        shadowed.look()
    assert shadowed.compared == [[('ours_only', 'unknown')]]


def test_next_request_for_a_server_ends_the_one_before(shadowed):
    for _ in range(2):
        shadowed.ask(UUIDS[0], ignore_hosts=['h2'])
    shadowed.cloud.taken[UUIDS[0]] = 'h1'
    shadowed.look()
    assert shadowed.compared == [[('unknown', '')], [('equal', '')]]


def test_request_that_ends_after_the_log_is_recorded_at_once(shadowed):
    shadowed.log.close()
    shadowed.ask(UUIDS[0])
    assert shadowed.compared == [[('unknown', '')]]


def test_defect_of_one_request_costs_no_other(shadowed):
    shadowed.ask(UUIDS[0])
    shadowed.ask(UUIDS[1])
    shadowed.cloud.servers[UUIDS[0]] = 'error', None
    shadowed.cloud.servers[UUIDS[1]] = 'active', 'h1'
    shadowed.cloud.has_defect = True
    shadowed.look()
    assert shadowed.compared == [[('equal', '')]]
