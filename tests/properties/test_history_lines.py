# SPDX-License-Identifier: Apache-2.0
"""Orders of hosts and providers are read from a history as they were written."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from novasched.history import providers
from novasched.history.orders import HostOrder, packed, packed_places, unpacked
from novasched.history.providers import LIMITS, ProviderEncoder
from novasched.policy_lab.providers import table_of
from tests.support.tables.examples import examples

HOSTS = 40
NAN = float('nan')
floats = st.sampled_from([0.0, -0.0, 1.0, 1.5, NAN, float('inf')])


def stored(value):
    """Return a value as it is read from a line."""
    return json.loads(json.dumps(value))


@st.composite
def ranks(draw):
    """Draw orders of some hosts each, with totals: often one of few that moved."""
    rows, found = [*range(HOSTS)], []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            rows = draw(st.permutations(rows))
        for _ in range(draw(st.integers(0, 2))):
            rows.insert(
                draw(st.integers(0, HOSTS)), rows.pop(draw(st.integers(0, HOSTS - 1)))
            )
        left = draw(st.sets(st.integers(0, HOSTS - 1)))
        chosen = [row for row in rows if row not in left]
        totals = draw(st.lists(floats, min_size=len(chosen), max_size=len(chosen)))
        found.append((np.array(chosen, np.intp), np.array(totals, float)))
    return found


@given(ranks())
@examples(200)
def test_orders_of_some_hosts_are_read_as_they_were(found):
    written = read = HostOrder(HOSTS)
    for rows, totals in found:
        changes = written.changes(rows, totals)
        written, read = written.changed(changes), read.changed(stored(changes))
        assert sorted(read.rows.tolist()) == [*range(HOSTS)]
        assert read.rows[read.places(rows)].tolist() == rows.tolist()
        assert repr(read.totals[rows].tolist()) == repr(totals.tolist())
        assert not written.changes(rows, totals)


def test_host_that_moves_is_all_that_is_written():
    rows = np.arange(1000)
    moved = np.append(rows[1:], 0)
    assert HostOrder(1000).changes(moved) == {'firsts': [1, 0], 'counts': [999, 1]}
    some = moved[moved % 3 > 0]
    assert not HostOrder(1000, moved).changes(some)


@given(st.lists(st.integers(-(1 << 62), 1 << 62)) | st.lists(st.integers(0, 70000)))
@examples(100)
def test_packed_numbers_are_read_as_they_were(numbers):
    assert unpacked(stored(packed(np.array(numbers, int)))).tolist() == numbers


@given(st.lists(st.integers(0, 99), unique=True), st.booleans())
@examples(100)
def test_packed_places_are_read_as_they_were(places, ascends):
    places = sorted(places) if ascends else places
    found = packed_places(np.array(places, np.intp), 100)
    assert unpacked(stored(found)).tolist() == places


def uuid(number):
    return f'{number:08}-0000-4000-8000-000000000000'


UUIDS = [uuid(number) for number in range(5)]
inventories = st.fixed_dictionaries(
    {each: st.sampled_from([1, 2, 1 << 40]) for each in LIMITS}
)
cases = st.dictionaries(
    st.sampled_from(UUIDS),
    st.fixed_dictionaries(
        {
            'parent': st.none(),
            'inventories': st.dictionaries(
                st.sampled_from(['VCPU', 'CUSTOM_GOLD']), inventories
            ),
            'traits': st.sets(st.sampled_from(['HW_A', 'CUSTOM_B'])).map(sorted),
            'aggregates': st.sets(st.sampled_from([uuid(8), uuid(9)])).map(sorted),
        }
    ),
)


def without_used(provider):
    limits = {
        name: {each: limit for each, limit in of.items() if each != 'used'}
        for name, of in provider['inventories'].items()
    }
    names = {each: sorted(provider[each]) for each in ('traits', 'aggregates')}
    return {**provider, 'inventories': limits, **names}


@given(st.lists(cases, min_size=1, max_size=4), st.booleans())
@examples(100)
def test_providers_are_read_as_they_were_and_unchanged_ones_are_not_written(
    tables, nested
):
    encoder, known = ProviderEncoder(), {}
    for table in tables:
        if nested and len(table) > 1:
            first, *others = table
            table = {first: table[first]} | {
                each: {**table[each], 'parent': first} for each in others
            }
        wanted = {each: without_used(provider) for each, provider in table.items()}
        lines = encoder.lines(table_of(table), 0.5)
        changed = {}
        for line in lines:
            assert line['at'] == 0.5
            changed = providers.decoded(stored(line['providers']))
        new = {u: p for u, p in changed.items() if p is not None}
        assert all(new[u]['inventories'] == table[u]['inventories'] for u in new)
        new = {u: without_used(provider) for u, provider in new.items()}
        assert new == {u: p for u, p in wanted.items() if known.get(u) != p}
        gone = {u for u, provider in changed.items() if provider is None}
        assert gone == known.keys() - wanted.keys()
        known = wanted
