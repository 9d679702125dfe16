# SPDX-License-Identifier: Apache-2.0
"""What nova chose for a server, by what it holds and by its row."""

from novasched.db.servers import ServerRow
from novasched.decisions.comparison import KnownBy, NovaChoice
from novasched.shadow.choices import REBUILD_S, claimed, rebuilt, settled
from tests.support.tables.cases import cases

NOTHING = frozenset[str]()
CHOSEN = NovaChoice('h1', KnownBy.ALLOCATION, 0.5)


def row(state, host):
    return ServerRow('uuid', 'vm', host, host, state, 'p', 'u', 512, 1, None)


@cases(
    ('before', 'now', 'choice'),
    ('nothing_held', NOTHING, NOTHING, None),
    ('a_new_host', NOTHING, {'h1'}, 'h1'),
    ('a_host_beside_the_source', {'h1'}, {'h1', 'h2'}, 'h2'),
    ('the_source_alone', {'h1'}, {'h1'}, None),
)
def test_choice_is_the_host_that_is_new_in_placement(before, now, choice):
    found = claimed({'u': frozenset(now)}, {'u': frozenset(before)}, {}, 2.0)
    expected = {} if choice is None else {'u': NovaChoice(choice, 'allocation', 2.0)}
    assert found == expected


def test_choice_that_is_known_stays():
    now = {'u': frozenset({'h2'})}
    assert claimed(now, {'u': NOTHING}, {'u': CHOSEN}, 2.0) == {}


@cases(
    ('at', 'choice', 'expected'),
    ('no_row', None, CHOSEN, None),
    ('without_a_host', row('building', None), CHOSEN, None),
    ('still_building', row('building', 'h1'), CHOSEN, None),
    ('active', row('active', 'h1'), CHOSEN, ('h1', 'allocation', [])),
    ('active_elsewhere', row('active', 'h2'), CHOSEN, ('h1', 'allocation', ['h1'])),
    ('in_error', row('error', None), CHOSEN, ('h1', 'allocation', ['h1'])),
    ('never_chosen', row('error', None), None, (None, 'failed', ())),
    ('seen_in_its_row_first', row('active', 'h2'), None, ('h2', 'instance', ())),
)
def test_row_says_what_became_of_a_boot(at, choice, expected):
    found = settled(at, choice, NOTHING, 3.0)
    assert (found and (found.host, found.known_by, found.refused)) == expected


@cases(
    ('at', 'fault', 'seen_s', 'expected'),
    ('too_early', row('active', 'h1'), '', REBUILD_S - 0.1, None),
    ('in_place', row('active', 'h1'), '', REBUILD_S, ('h1', 'instance')),
    ('refused', row('error', 'h1'), 'No valid host', REBUILD_S, (None, 'failed')),
    ('in_error_before', row('error', 'h1'), '', REBUILD_S, ('h1', 'instance')),
)
def test_rebuild_stays_on_its_host_or_has_a_new_fault(at, fault, seen_s, expected):
    found = rebuilt(at, lambda: fault, seen_s)
    assert (found and (found.host, found.known_by)) == expected
