# SPDX-License-Identifier: Apache-2.0
"""The audit finds what violates each invariant, and finds nothing where none does."""

from __future__ import annotations

import os

import pytest

from tests.faults.audit import Audit, Bounds, Failure
from tests.faults.books import Capacity

H1, H2 = 'node-1', 'node-2'


class Selected:
    """A Selection, as far as the audit looks at it."""

    def __init__(self, node):
        self.compute_node_uuid = node


class WrittenBooks:
    """Books with what a test writes into them."""

    def __init__(self):
        self.by_consumer = {}
        self.used = [Capacity('h1', 'VCPU', 8, 8)]

    def held(self, consumer):
        return set(self.by_consumer.get(consumer, ()))

    def holdings(self):
        return {one: set(nodes) for one, nodes in self.by_consumer.items() if nodes}

    def capacities(self):
        return self.used


class Run:
    """A run that is made up: an audit, its books, and a clock that stands still."""

    def __init__(self):
        self.now_s = 100.0
        self.books = WrittenBooks()
        self.audit = Audit(self.books, settle_s=0, clock=lambda: self.now_s)

    def boot(self, consumer='a', node=H1, held=(H1,), **what):
        """Answer a boot with a node while placement holds others."""
        call = self.audit.sent([consumer], **what)
        self.books.by_consumer[consumer] = set(held)
        self.audit.answered(call, [[Selected(node)]])
        return call

    def fail(self, *failure, **what):
        """Answer a boot with a failure."""
        call = self.audit.sent(['f'], **what)
        self.audit.failed(call, Failure(*failure))
        return call


@pytest.fixture
def run():
    return Run()


ALL = ['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8']


def over_capacity(run):
    run.books.used.append(Capacity('h1', 'MEMORY_MB', 513, 512))


def over_reserve(run):
    run.books.used.append(Capacity('h1', 'VCPU', 7, (8 - 2) * 1.0))


def claim_without_an_answer(run):
    run.audit.sent(['a'])
    run.books.by_consumer['a'] = {H1}


def second_host(run):
    run.boot()
    run.books.by_consumer['a'] = {H1, H2}


def claim_of_a_failed_request(run):
    run.fail('NoValidHost')
    run.books.by_consumer['f'] = {H1}


def unknown_consumer(run):
    run.books.by_consumer['x'] = {H1}


def deleted_server(run):
    run.boot()
    run.audit.released('a')


def two_answers(run):
    call = run.boot()
    run.audit.answered(call, [[Selected(H1)]])


def other_answer_to_the_copy(run):
    run.boot(deliveries=2)
    run.boot(node=H2, held=(H2,))


def other_host_than_claimed(run):
    run.boot(node=H1, held=(H2,))


def one_host_more_than_answered(run):
    run.boot(node=H1, held=(H1, H2))


def answer_without_a_claim(run):
    run.boot(held=())


def too_few_hosts(run):
    call = run.audit.sent(['a', 'b'])
    run.books.by_consumer['a'] = {H1}
    run.audit.answered(call, [[Selected(H1)]])


def move_that_lost_its_source(run):
    run.boot(node=H2, held=(H1,), kept=[H1])


def members_on_one_host(run):
    run.boot('a')
    run.boot('b')
    run.audit.group('anti-affinity', ['a', 'b'])


def members_apart(run):
    run.boot('a')
    run.boot('b', node=H2, held=(H2,))
    run.audit.group('affinity', ['a', 'b'])


def no_valid_host_with_room(run):
    run.fail('NoValidHost', None, 'No valid host was found. ', room=True)


def silence(run):
    run.audit.sent(['a'])
    run.now_s += 10


def late_answer(run):
    run.audit.bounds = Bounds(latency_s=5)
    call = run.audit.sent(['f'])
    run.now_s += 6
    run.audit.failed(call, Failure('NoValidHost'))


def open_files(run):
    run.audit.bounds = Bounds(files=-1)
    run.audit.watch('this process', os.getpid())


def class_of_ours(run):
    run.fail('CallerGone', 'novasched.ports')


def class_in_the_wrong_module(run):
    run.fail('NoValidHost', 'novasched.errors')


def failure_without_a_code(run):
    run.fail('NoValidHost', 'nova.exception', '', {'reason': ''})


@pytest.mark.parametrize(
    ('violate', 'name', 'said'),
    [
        (over_capacity, 'I1', 'h1: 513 of 512 MEMORY_MB are used'),
        (over_reserve, 'I1', 'h1: 7 of 6 VCPU are used'),
        (claim_without_an_answer, 'I2', "a holds ['node-1'], which no answer names"),
        (second_host, 'I2', "a holds ['node-2'], which no answer names"),
        (claim_of_a_failed_request, 'I2', 'f holds'),
        (unknown_consumer, 'I2', 'and no request names it'),
        (deleted_server, 'I2', 'and was released'),
        (two_answers, 'I3', 'request for a: 2 answers to 1 sent'),
        (other_answer_to_the_copy, 'I3', "answered with ['node-1', 'node-2']"),
        (other_host_than_claimed, 'I4', "answered with node-1 and held ['node-2']"),
        (one_host_more_than_answered, 'I4', "and held ['node-1', 'node-2']"),
        (answer_without_a_claim, 'I4', 'and held []'),
        (too_few_hosts, 'I4', 'request for a and 1 more: 1 hosts in its answer'),
        (move_that_lost_its_source, 'I4', "answered with node-2 and held ['node-1']"),
        (members_on_one_host, 'I5', "['a', 'b'] of one anti-affinity group are on"),
        (members_apart, 'I5', "an affinity group is on ['node-1', 'node-2']"),
        (no_valid_host_with_room, 'I6', 'NoValidHost while a host was free'),
        (silence, 'I7', 'no answer after 10.0 s'),
        (late_answer, 'I7', '6.0 s of at most 5 s'),
        (open_files, 'I7', 'this process: files grew'),
        (class_of_ours, 'I8', 'novasched.ports.CallerGone is none of nova'),
        (class_in_the_wrong_module, 'I8', 'novasched.errors.NoValidHost is none'),
        (failure_without_a_code, 'I8', 'NoValidHost has no code'),
    ],
    ids=lambda value: getattr(value, '__name__', ''),
)
def test_a_violation_is_found_and_named(run, violate, name, said):
    violate(run)
    with pytest.raises(AssertionError) as raised:
        run.audit.check(name)
    assert said in str(raised.value)
    assert str(raised.value).startswith(f'{name}: ')


def test_a_run_without_a_fault_violates_nothing(run):
    run.audit.bounds = Bounds(latency_s=5, threads=5, files=5, memory_mb=50)
    run.audit.watch('this process', os.getpid())
    run.boot('a', room=True)
    run.boot('b', node=H2, held=(H2,))
    run.boot('moved', node=H2, held=(H1, H2), kept=[H1])
    run.boot('moved in place', node=H1, held=(H1,), kept=[H1])
    run.fail('NoValidHost', 'nova.exception', 'No.', {'reason': '', 'code': 500})
    run.audit.group('anti-affinity', ['a', 'b'])
    run.audit.stranger('x')
    run.books.by_consumer['x'] = {H1}
    run.audit.check(*ALL)


def test_allowed_leftover_of_a_caller_that_gave_up_is_reported(run):
    call = run.audit.sent(['a'])
    run.audit.gave_up(call)
    run.books.by_consumer['a'] = {H1}
    with pytest.raises(AssertionError, match='which no answer names'):
        run.audit.check('I2')
    run.audit.left_by(call)
    run.audit.check('I2', 'I7')
    assert run.audit.left_behind() == ['a']


def test_an_equal_answer_to_a_second_delivery_is_no_violation(run):
    call = run.boot(deliveries=2)
    run.audit.answered(call, [[Selected(H1)]])
    run.audit.check(*ALL)


def test_a_leak_that_ends_in_time_is_none(run):
    run.audit = Audit(run.books, settle_s=30)
    run.audit.sent(['a'])
    looks = iter([{'a': {H1}}, {'a': {H1}}])
    run.books.holdings = lambda: next(looks, {})
    run.audit.check('I2')


def test_the_log_is_shown_with_a_violation(run):
    run.audit.logs.append(lambda: 'the claim is lost')
    over_capacity(run)
    with pytest.raises(AssertionError, match='log: the claim is lost'):
        run.audit.check('I1')
