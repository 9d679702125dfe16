# SPDX-License-Identifier: Apache-2.0
"""A body has 64 KB at most, and what matters most stays longest."""

import random
from dataclasses import replace

from novasched.decisions.body import RecordBody, RecordedClaim, RecordedQuery, body_of
from novasched.decisions.bounds import MOST_BYTES, truncated
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.record import encode
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.outline import ReasonCount
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakePlacement
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

LETTERS = [chr(number) for number in range(33, 127)]


def noise(length, seed=0):
    """A text that cannot be compressed."""
    return ''.join(random.Random(seed).choices(LETTERS, k=length))


def decision(index, size=100):
    return {
        'index': index,
        'attempt': 1,
        'host': f'h{index}',
        'outcomes': random.Random(index).randbytes(size),
        'steps': [
            {'name': 'F', 'in': 2, 'out': 1,
             'reasons': [['rejected', noise(200, index), 1, 'h1']]},
        ],
    }  # fmt: skip


def body(decisions=(), alternates=0, name=0, words=0, **more):
    """A body with this many bytes that cannot be compressed, by place."""
    return body_of({
        'v': 1,
        'servers': [
            {'uuid': 'u', 'host': noise(name), 'alternates': [noise(alternates)]}
        ],
        'request': {
            'flavor': {'name': 'small', 'extra_specs': {noise(99): noise(99)}},
            'image': None,
            'requested_resources': 7,
            'is_move': False,
        },
        'asked': [{'query': noise(words), 'status': 503, 'text': 'away'}],
        'notes': [noise(words, 1)],
        'claims': [{'host': 'h1', 'text': noise(words, 2)}],
        'decisions': list(decisions),
        **more,
    })  # fmt: skip


def test_a_small_body_stays_as_it_is():
    small = body([decision(n) for n in range(3)], 50, words=50)
    assert truncated(small) is small


def test_compressible_body_is_not_truncated():
    large = body(notes=['x' * 200] * 1000)
    assert len(encode(large)) < MOST_BYTES
    assert truncated(large) is large


def test_middle_decisions_go_first():
    large = body([decision(n, 10_000) for n in range(9)], 5000, words=1000)
    found = truncated(large)
    assert len(encode(found)) <= MOST_BYTES
    first, *_, last = large.decisions
    assert found == replace(large, decisions=[first, last])


def test_then_alternates_go():
    large = body([decision(n) for n in range(9)], 80_000, words=1000)
    found = truncated(large)
    assert len(encode(found)) <= MOST_BYTES
    assert found.servers == [replace(large.servers[0], alternates=())]
    assert found.notes == large.notes


def test_then_texts_go():
    large = body([decision(n) for n in range(2)], 10, words=80_000)
    found = truncated(large)
    assert len(encode(found)) <= MOST_BYTES
    assert found.asked == [RecordedQuery('', status=503, text='')]
    assert found.notes == ()
    assert found.claims == [RecordedClaim('h1')]
    request = found.request
    assert (request.requested_resources, request.is_move) == (7, False)
    assert request.flavor.name == 'small'
    ((name, value),) = request.flavor.extra_specs.items()
    assert (len(name), len(value)) == (64, 16)
    for kept, before in zip(found.decisions, large.decisions, strict=True):
        assert kept.outcomes == before.outcomes
        assert kept.steps[0].reasons == [ReasonCount('rejected', '', 1, 'h1')]


@cases(
    'large',
    ('names of hosts', body(name=200_000)),
    ('what cannot be encoded', body(notes=[object()])),
)
def test_at_last_only_the_servers_are_left(large):
    found = truncated(large)
    assert found == RecordBody(servers=found.servers)
    assert [s.host for s in found.servers] == [s.host for s in large.servers]


class Talks(BaseHostFilter):
    """Rejects all, with as many reasons as there are hosts, which are long."""

    codes = tuple(Code)

    def host_passes(self, host_state, spec_obj):
        return False

    def why(self, host, request):
        number = int(host.host[1:])
        return Reason(list(Code)[number % len(Code)], noise(5000, number))


def test_a_request_of_megabytes_of_noise_has_a_record():
    names = [noise(300, n) for n in range(300)]
    recorded = Recorded(factories.hosts(count=100), filters=[Talks()])
    recorded.refused(
        [f'{noise(28, n)}{n:08}' for n in range(1000)],
        extra_specs={name: name[::-1] for name in names},
        scheduler_hints={
            **{name: [noise(5000)] for name in names},
            'query': names, 'same_host': names, 'different_host': names, 'cidr': names,
        },
        ignore_hosts=names,
        instance_group=factories.group(),
    )  # fmt: skip
    record = recorded.record
    assert len(encode(record.body)) <= MOST_BYTES
    assert record.body.request is not None
    assert RecordEncoder()(record).body is not None
    (step,) = record.body.decisions[0].steps
    assert sum(reason.hosts for reason in step.reasons) == 100


def test_a_thousand_servers_fit_with_all_their_alternates():
    hosts = factories.hosts(free_ram_mb=[9000 - n for n in range(200)])
    recorded = Recorded(hosts, weighers=[RAMWeigher(-1.0)], parts={'max_attempts': 9})
    uuids = [f'{n:08x}-0000-4000-8000-{n:012}' for n in range(1000)]
    recorded.ask(uuids)
    body = recorded.record.body
    assert len(encode(body)) <= MOST_BYTES
    assert [server.uuid for server in body.servers] == uuids
    assert {len(server.alternates) for server in body.servers} == {8}


def test_more_servers_than_are_kept_are_counted():
    recorded = Recorded(factories.hosts(count=2), weighers=[RAMWeigher()])
    recorded.ask([f'{n:08x}-0000-4000-8000-{n:012}' for n in range(1200)])
    assert len(recorded.record.body.servers) == 1000
    assert recorded.record.head.servers == 1200


def test_a_query_that_is_too_long_is_not_kept():
    traits = {f'trait:CUSTOM_{"X" * 200}{n}': 'required' for n in range(60)}
    recorded = Recorded(placement=FakePlacement(), waits_for_diagnosis=True)
    recorded.refused(extra_specs=traits)
    assert recorded.record.body.asked[0].query == ''


def test_a_request_of_five_megabytes_has_a_small_record():
    text = 'x' * 1000
    recorded = Recorded(factories.hosts(count=4))
    many = {f'{n}{text}': f'{text}{n}' for n in range(2500)}
    recorded.ask(
        extra_specs=many,
        scheduler_hints={'query': [text] * 2500, **{n: [text] for n in many}},
        ignore_hosts=[f'{text}{n}' for n in range(2500)],
    )
    request = recorded.record.body.request
    assert len(encode(recorded.record.body)) <= MOST_BYTES
    specs = request.flavor.extra_specs
    assert len(request.ignored) == len(request.hints) == len(specs) == 64
    assert {len(value) for value in specs.values()} == {256}
