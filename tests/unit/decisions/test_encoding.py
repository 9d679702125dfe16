# SPDX-License-Identifier: Apache-2.0
"""Records are encoded whatever plugins put into them, and what they share once."""

import random
import zlib
from dataclasses import replace
from decimal import Decimal

import msgpack
import numpy as np
import pytest

from novasched.decisions.body import (
    HostDecision,
    RecordBody,
    RecordedServer,
    WholeDecision,
    body_of,
)
from novasched.decisions.comparison import (
    KnownBy,
    NovaChoice,
    ServerComparison,
    Verdict,
)
from novasched.decisions.encoding import MOST_KNOWN, RecordEncoder
from novasched.decisions.record import LONG_OUTCOMES, decode, encode
from novasched.decisions.record_builder import profile_summary
from novasched.runtime.typed_json import to_json
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.records.stored_records import make_record
from tests.support.tables.cases import cases


@cases(
    'multiplier, kept',
    ('a decimal number', Decimal('1.5'), 1.5),
    ('of numpy', np.int64(2), 2.0),
    ('no number', object(), None),
)
def test_multipliers_of_plugins_are_kept_as_plain_numbers(multiplier, kept):
    profile = Profile((), (RAMWeigher(multiplier),))
    policy = profile_summary(profile)
    assert policy['weighers'] == {'RAMWeigher': kept}
    assert decode(encode(policy)) == policy


def test_a_list_of_hosts_is_encoded_once():
    encoder = RecordEncoder()
    first, again = (
        encoder(make_record(host_lists={'abc': ('cmp-1', 'cmp-2')})) for _ in range(2)
    )
    assert decode(first.host_lists['abc']) == ['cmp-1', 'cmp-2']
    assert again.host_lists['abc'] is first.host_lists['abc']
    for number in range(MOST_KNOWN):
        encoder(make_record(host_lists={str(number): ()}))
    third = encoder(make_record(host_lists={'abc': ('cmp-1', 'cmp-2')}))
    assert third.host_lists == first.host_lists
    assert third.host_lists['abc'] is not first.host_lists['abc']


@pytest.mark.parametrize('hosts', [0, LONG_OUTCOMES - 1, LONG_OUTCOMES, 40_000])
@pytest.mark.parametrize('decisions', [1, 3])
def test_a_body_with_the_outcomes_of_many_hosts_is_a_stream_of_zlib(hosts, decisions):
    outcomes = bytes(random.Random(1).choices([2, 3, 4, 5], k=hosts))
    whole = WholeDecision(outcomes=outcomes, steps=[])
    body = RecordBody(decisions=[HostDecision(0), *[whole] * decisions])
    assert msgpack.unpackb(zlib.decompress(encode(body))) == to_json(body)
    assert encode(body_of(decode(encode(body)))) == encode(body)


def test_outcomes_without_an_order_take_about_the_bits_of_their_number():
    outcomes = bytes(random.Random(1).choices([2, 3, 4, 5], k=10_000))
    of_many, of_none = (
        RecordBody(decisions=[WholeDecision(outcomes=each, steps=[])])
        for each in (outcomes, b'')
    )
    alone = len(encode(of_many)) - len(encode(of_none))
    assert alone < 1.2 * 10_000 / 4 < len(zlib.compress(outcomes, 1))


def test_head_alone_travels_without_what_it_has_not():
    body = RecordBody(servers=[RecordedServer('uuid', 'h1')])
    made = replace(make_record(), body=body)
    sent = decode(made.to_primitive()['body'])
    assert list(sent) == ['servers']
    assert body_of(sent).is_of_head


def test_head_alone_travels_with_its_comparisons():
    chosen = NovaChoice('h2', KnownBy.ALLOCATION)
    compared = ServerComparison('uuid', 'h1', chosen, Verdict.WORSE)
    body = RecordBody(servers=[RecordedServer('uuid', 'h1')], shadow=[compared])
    sent = decode(replace(make_record(), body=body).to_primitive()['body'])
    assert list(sent) == ['servers', 'shadow']
    assert body_of(sent).is_of_head
    assert body_of(sent).shadow[0].verdict == Verdict.WORSE


@cases(
    'stored',
    ('an error without a class', {'error': {'text': 'x'}}),
    ('a map for a list', {'asked': {'a': 1}}),
)
def test_body_of_another_form_is_refused(stored):
    with pytest.raises(ValueError, match='not a record'):
        body_of(stored)
