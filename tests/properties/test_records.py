# SPDX-License-Identifier: Apache-2.0
"""A record is read as it was written, whatever is in it."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from novasched.decisions.body import (
    RecordBody,
    RecordedServer,
    WholeDecision,
    body_of,
)
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.record import (
    DecisionRecord,
    Head,
    decode,
    encode,
    new_id,
    time_of_id,
)
from novasched.decisions.writing import DecisionWriter
from novasched.runtime.typed_json import to_json
from tests.support.records.stored_records import write
from tests.support.tables.examples import examples

TEXTS = st.text(st.characters(codec='utf-8'), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
"""Weights are kept as such."""
LEAVES = st.none() | st.booleans() | NUMBERS | FLOATS | TEXTS | st.binary(max_size=20)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=20,
)
MAPS = st.dictionaries(TEXTS, VALUES, max_size=6)
HASHES = st.text('0123456789abcdef', min_size=1, max_size=8)
OTHER_HASHES = HASHES.map('p{}'.format)
"""A list of hosts and a profile never have the same hash."""
POSITIVE = st.integers(0, 2**63 - 1)
SERVERS = st.lists(st.builds(RecordedServer, TEXTS, st.none() | TEXTS), max_size=3)


@st.composite
def records(draw):
    """Return records of any content, which refer to what they bring."""
    head = Head(
        new_id(draw(st.floats(1.6e9, 2e9)), draw(st.integers(0, 2**24 - 1))),
        draw(POSITIVE),
        *(draw(TEXTS) for _ in range(6)),
        result=draw(st.sampled_from(['scheduled', 'unschedulable', 'error'])),
        blocker=draw(TEXTS),
        took_us=draw(POSITIVE),
        diagnosis=draw(st.sampled_from(['', 'waiting', 'made'])),
    )
    lists = draw(st.dictionaries(HASHES, st.lists(TEXTS, max_size=4), max_size=2))
    profiles = draw(st.dictionaries(OTHER_HASHES, MAPS, max_size=1))
    body = RecordBody(
        servers=draw(SERVERS),
        notes=draw(st.lists(TEXTS, max_size=2)),
        stages_ms=draw(st.dictionaries(TEXTS, FLOATS, max_size=2)),
        decisions=[WholeDecision(host_list=one, steps=[]) for one in lists],
        profile=next(iter(profiles), ''),
    )
    return DecisionRecord(head, body_of(to_json(body)), lists, profiles)


@given(VALUES)
def test_decode_undoes_encode(value):
    assert decode(encode(value)) == value


@given(st.lists(records(), max_size=5, unique_by=lambda record: record.head.id))
@examples(40)
def test_written_records_are_read_unchanged(many):
    # A file holds a list of hosts once: under a hash there is always the same one.
    lists = {key: names for each in many for key, names in each.host_lists.items()}
    profiles = {key: value for each in many for key, value in each.profiles.items()}
    many = [
        DecisionRecord(
            each.head,
            each.body,
            {key: lists[key] for key in each.host_lists},
            {key: profiles[key] for key in each.profiles},
        )
        for each in many
    ]
    memory = MemoryDecisions()
    write(memory, many)
    with tempfile.TemporaryDirectory() as scratch:
        writer, reader = DecisionWriter(Path(scratch)), DecisionFiles(Path(scratch))
        write(writer, many)
        for each in (reader, memory):
            assert each.find(Criteria()) == [record.head for record in reversed(many)]
            for record in many:
                assert each.read(record.head.id) == record
        writer.close()
        assert [reader.read(record.head.id) for record in many] == many


@given(st.integers(1_577_836_800_000, 2**41), st.integers(0, 2**24 - 1))
def test_ids_sort_by_time_and_hold_it(at_ms, chance):
    one = new_id(at_ms / 1000, chance)
    assert abs(time_of_id(one) - at_ms * 1000) <= 1000
    assert one < new_id((at_ms + 2) / 1000, 0)
