# SPDX-License-Identifier: Apache-2.0
"""Claims of several requests in one POST, each with its own outcome."""

import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement import writes
from novasched.placement.client import PlacementClient
from novasched.placement.writes import PATIENT_S, SLOW_S, AllocationWrites
from novasched.ports import CallerGone, Claimed, ClaimRefused, ClaimRequest
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.conftest import put_between
from tests.support.tables.cases import cases

FIRST = str(uuid.uuid4())
POST, PUT = 'POST', 'PUT'
LOST = object()
WAIT_S = 60


class Gate(requests.adapters.BaseAdapter):
    """Holds the first write back until all others wait; then lets all through.

    ``fail`` gets a write, by the consumers in it, and returns or raises what becomes
    of it: None to let it through, LOST to lose the answer.
    """

    def __init__(self, inner):
        super().__init__()
        self._inner = inner
        self.is_open = threading.Event()
        self.is_reached = threading.Event()
        self.asked = []
        self.fail = lambda method, consumers: None

    def send(self, request, **options):
        method, consumers = request.method, set()
        if method in (POST, PUT) and '/allocations' in request.url:
            body = json.loads(request.body)
            path = request.url.rpartition('/')[2]
            consumers = {*body} if method == POST else {path}
            self.asked.append((method, len(consumers)))
            if FIRST in consumers:
                self.is_reached.set()
                assert self.is_open.wait(30)
            spoiled = self.fail(method, consumers)
            if spoiled is not LOST and spoiled is not None:
                return spoiled
            if spoiled is LOST:
                self._inner.send(request, **options).close()
                raise requests.ReadTimeout('timed out')
        return self._inner.send(request, **options)

    def close(self):
        self._inner.close()


def failed(status):
    """Return the answer of a server that has written nothing."""
    answer = requests.Response()
    answer.status_code, answer._content = status, b'<html/>'
    return answer


@pytest.fixture
def gate(adapter):
    return put_between(adapter, Gate)


@pytest.fixture
def nodes(adapter):
    """Return providers with room for 4, 64 and 64 CPUs."""
    providers = [
        Provider(str(uuid.uuid4()), name, {'VCPU': Inventory(total)})
        for name, total in (('small', 4), ('one', 64), ('other', 64))
    ]
    provide(adapter, providers)
    return [provider.uuid for provider in providers]


@pytest.fixture
def held(adapter):
    """Return a function that tells which providers a consumer holds something of."""

    def run(consumer):
        answer = adapter.get(f'/allocations/{consumer}', microversion='1.28')
        return [*answer.json()['allocations']]

    return run


class Claiming:
    """Claims from threads; the claims after the first one wait until it is answered."""

    def __init__(self, adapter, gate):
        self._writes = AllocationWrites(adapter, 4)
        self._client = PlacementClient(adapter, writes=self._writes)
        self._gate = gate
        self.checks = {}

    def claim(self, consumer, node, **options):
        candidate = {
            'allocations': {node: {'resources': {'VCPU': 2}}},
            'mappings': {'': [node]},
        }
        check = self.checks.get(consumer, lambda: None)
        context = RequestContext(overwrite=False)
        return self._client.claim(
            context,
            ClaimRequest(consumer, candidate),
            '1.36',
            'p',
            'u',
            check=check,
            **options,
        )

    def undo(self, consumer, within_s):
        body = {'allocations': {}, 'project_id': 'p', 'user_id': 'u'}
        body['consumer_generation'] = None
        context = RequestContext(overwrite=False)
        return self._writes.put(context, consumer, body, '1.28', within_s=within_s)

    def together(self, first_node, others, leaving=0):
        """Return the outcomes by consumer; ``others`` has nodes by consumer. So many
        of them leave before the first claim is answered."""
        with ThreadPoolExecutor(1 + len(others)) as pool:
            waiting = {FIRST: pool.submit(self.claim, FIRST, first_node)}
            assert self._gate.is_reached.wait(30)
            for number, (consumer, node) in enumerate(others.items(), 1):
                waiting[consumer] = pool.submit(self.claim, consumer, node)
                self.wait(number)
            self.wait(len(others) - leaving)
            self._gate.is_open.set()
            return {uuid: _outcome(future) for uuid, future in waiting.items()}

    def wait(self, number):
        """Return once so many writes wait."""
        deadline = time.monotonic() + 30
        while self._writes.waiting != number:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def _outcome(future):
    try:
        return future.result(60)
    except (errors.RequestError, MemoryError) as ended:
        return ended


@pytest.fixture
def claiming(adapter, gate, monkeypatch):
    """No write is called slow, as a busy machine may need long until all wait."""
    monkeypatch.setattr(writes, 'SLOW_S', WAIT_S)
    return Claiming(adapter, gate)


def consumers(count):
    return [str(uuid.uuid4()) for _ in range(count)]


def test_claims_that_wait_go_as_one(claiming, gate, nodes, held):
    others = dict.fromkeys(consumers(3), nodes[2])
    outcomes = claiming.together(nodes[1], others)
    assert outcomes == {uuid: Claimed(uuid) for uuid in (FIRST, *others)}
    assert gate.asked == [(PUT, 1), (POST, 3)]
    assert [held(uuid) for uuid in others] == [[nodes[2]]] * 3


def test_no_more_go_together_than_the_option_says(claiming, gate, nodes):
    others = dict.fromkeys(consumers(6), nodes[2])
    outcomes = claiming.together(nodes[1], others)
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert gate.asked == [(PUT, 1), (POST, 4), (POST, 2)]


def test_claim_on_a_full_host_is_refused_alone(claiming, gate, nodes, held):
    claiming.claim(*consumers(1), nodes[0])
    claiming.claim(*consumers(1), nodes[0])
    gate.asked.clear()
    refused, *others = consumers(4)
    wanted = {others[0]: nodes[1], refused: nodes[0], others[1]: nodes[2]}
    outcomes = claiming.together(nodes[1], wanted)
    found = outcomes.pop(refused)
    assert isinstance(found, ClaimRefused)
    assert found.exhausted == (nodes[0], 'VCPU')
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert gate.asked == [(PUT, 1), (POST, 3), (POST, 2), (PUT, 1)]
    assert held(refused) == []


def test_as_many_get_a_host_as_fit(claiming, gate, nodes, held):
    wanted = dict.fromkeys(consumers(4), nodes[0])
    outcomes = claiming.together(nodes[1], wanted)
    assert sum(isinstance(outcomes[uuid], Claimed) for uuid in wanted) == 2
    assert sum(bool(held(uuid)) for uuid in wanted) == 2


def test_consumer_that_holds_something_fails_alone(claiming, gate, nodes, held):
    doubled, *others = consumers(4)
    claiming.claim(doubled, nodes[2])
    gate.asked.clear()
    wanted = {others[0]: nodes[1], doubled: nodes[1], **dict.fromkeys(others, nodes[1])}
    outcomes = claiming.together(nodes[1], wanted)
    assert isinstance(outcomes.pop(doubled), errors.AlreadyClaimed)
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert held(doubled) == [nodes[2]]
    assert gate.asked[:2] == [(PUT, 1), (POST, 4)]
    assert len(gate.asked) <= 2 + 2 * 2


def test_caller_that_gave_up_leaves_before_the_post(claiming, gate, nodes, held):
    gone, *others = consumers(3)

    def check():
        raise CallerGone('it waits no more')

    claiming.checks[gone] = check
    wanted = dict.fromkeys((gone, *others), nodes[1])
    outcomes = claiming.together(nodes[1], wanted, leaving=1)
    assert isinstance(outcomes.pop(gone), CallerGone)
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert gate.asked == [(PUT, 1), (POST, 2)]
    assert held(gone) == []


def test_server_that_moves_does_not_wait(claiming, gate, nodes, held):
    (moved,) = consumers(1)
    claiming.claim(moved, nodes[2])
    gate.asked.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(claiming.claim, FIRST, nodes[1])
        assert gate.is_reached.wait(30)
        move = pool.submit(claiming.claim, moved, nodes[1], adds=True)
        claiming.wait(1)  # the second attempt, which knows what the server holds
        gate.is_open.set()
        assert isinstance(move.result(60), Claimed)
        assert isinstance(first.result(60), Claimed)
    assert {*held(moved)} == {nodes[1], nodes[2]}
    assert gate.asked == [(PUT, 1)] * 3


def test_request_delivered_twice_holds_one_host(claiming, gate, nodes, held):
    """Both copies wait at once: a POST takes one of them."""
    (twice,) = consumers(1)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(claiming.claim, FIRST, nodes[1])
        assert gate.is_reached.wait(30)
        copies = [pool.submit(claiming.claim, twice, nodes[at]) for at in (1, 2)]
        claiming.wait(2)
        gate.is_open.set()
        outcomes = [_outcome(copy) for copy in copies]
        assert isinstance(first.result(60), Claimed)
    kinds = {type(outcome) for outcome in outcomes}
    assert kinds == {Claimed, errors.AlreadyClaimed}
    assert held(twice) == [nodes[1 + outcomes.index(Claimed(twice))]]


def test_each_batch_waits_for_a_hanging_one_once(claiming, gate, nodes, monkeypatch):
    """All writes hang: the next one begins SLOW_S after the one before."""
    monkeypatch.setattr(writes, 'SLOW_S', SLOW_S)
    began, ended = [], threading.Event()

    def hang(method, consumers):
        began.append(time.monotonic())
        assert ended.wait(30)

    gate.fail = hang
    gate.is_open.set()
    with ThreadPoolExecutor(9) as pool:
        claims = [pool.submit(claiming.claim, *consumers(1), nodes[1])]
        claiming.wait(0)
        while not began:
            time.sleep(0.01)
        others = consumers(8)
        claims += [pool.submit(claiming.claim, uuid, nodes[1]) for uuid in others]
        deadline = time.monotonic() + 30
        while len(began) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ended.set()
        assert all(isinstance(claim.result(30), Claimed) for claim in claims)
    assert began[2] - began[0] < 3 * SLOW_S


def test_defect_of_a_check_harms_no_other(claiming, gate, nodes, held):
    bad, *others = consumers(3)

    def check():
        raise LookupError('a defect')

    claiming.checks[bad] = check
    wanted = dict.fromkeys((bad, *others), nodes[1])
    with pytest.raises(LookupError):
        claiming.together(nodes[1], wanted, leaving=1)
    assert held(bad) == []
    assert [held(uuid) for uuid in others] == [[nodes[1]]] * 2


@cases(
    'how, others',
    ('the answer is lost', 'lose', []),
    ('the request is lost', 'drop', [(PUT, 1)] * 3),
    ('the server fails', 500, [(PUT, 1)] * 3),
    ('a gateway fails', 504, [(PUT, 1)] * 3),
    ('a gateway shows a page', 200, [(PUT, 1)] * 3),
    ('a gateway refuses its size', 413, [(POST, 2), *[(PUT, 1)] * 3]),
)
def test_each_finds_out_what_became_of_a_post(claiming, gate, nodes, held, how, others):
    def fail(method, consumers):
        if method == PUT:
            return None
        if isinstance(how, int):
            return failed(how)
        if how == 'lose':
            return LOST
        raise requests.ReadTimeout('timed out')

    gate.fail = fail
    wanted = dict.fromkeys(consumers(3), nodes[1])
    outcomes = claiming.together(nodes[1], wanted)
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert [held(uuid) for uuid in wanted] == [[nodes[1]]] * 3
    assert [each for each in gate.asked if each != (POST, 3)][1:] == others


def test_poisonous_claim_fails_alone(claiming, gate, nodes, held):
    poison, *others = consumers(4)
    gate.fail = lambda method, uuids: failed(500) if poison in uuids else None
    outcomes = claiming.together(nodes[1], dict.fromkeys((poison, *others), nodes[1]))
    assert isinstance(outcomes.pop(poison), ClaimRefused)
    assert all(isinstance(each, Claimed) for each in outcomes.values())
    assert held(poison) == []


def test_slow_write_holds_up_no_other(claiming, gate, nodes, monkeypatch):
    monkeypatch.setattr(writes, 'SLOW_S', SLOW_S)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(claiming.claim, FIRST, nodes[1])
        assert gate.is_reached.wait(30)
        others = [pool.submit(claiming.claim, *consumers(1), nodes[1]) for _ in '12']
        assert all(isinstance(each.result(30), Claimed) for each in others)
        assert not first.done()
        gate.is_open.set()
        assert isinstance(first.result(30), Claimed)


def test_write_with_little_time_left_goes_alone(claiming, gate, nodes, monkeypatch):
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(claiming.claim, FIRST, nodes[1])
        assert gate.is_reached.wait(30)
        written = pool.submit(claiming.undo, *consumers(1), 2 * PATIENT_S)
        claiming.wait(1)
        monkeypatch.setattr(writes, 'PATIENT_S', 3 * PATIENT_S)  # it has less now
        assert written.result(30).answer.status_code == 204
        assert not first.done()
        gate.is_open.set()
        assert isinstance(first.result(30), Claimed)


def test_sender_that_breaks_off_leaves_the_fate_of_none_unknown(
    claiming, gate, nodes, held
):
    def fail(method, consumers):
        if method == POST:
            gate.fail = lambda method, consumers: None
            raise MemoryError
        return

    gate.fail = fail
    wanted = dict.fromkeys(consumers(3), nodes[1])
    outcomes = claiming.together(nodes[1], wanted)
    (sender,) = [uuid for uuid in wanted if isinstance(outcomes[uuid], MemoryError)]
    assert held(sender) == []
    assert [held(uuid) for uuid in wanted if uuid != sender] == [[nodes[1]]] * 2
