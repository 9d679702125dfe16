# SPDX-License-Identifier: Apache-2.0
"""Requirements that prefilters add."""

import pytest

from novasched.resources import Requirements

OWNER = frozenset({'OWNER_NOVA'})


def test_requirements_add_up():
    one = Requirements(frozenset('a'), frozenset('b'), (frozenset('c'),), notes=('1',))
    two = Requirements(
        frozenset('d'),
        not_member_of=frozenset('e'),
        member_of=(frozenset('f'),),
        group_required={'x': OWNER},
        warnings=('2',),
    )
    assert one | two == Requirements(
        frozenset('ad'),
        frozenset('b'),
        (frozenset('c'), frozenset('f')),
        frozenset('e'),
        {'x': OWNER},
        ('2',),
        ('1',),
    )


@pytest.mark.parametrize('name', ['failures', 'warnings', 'notes'])
def test_lines_for_the_log_demand_nothing(name):
    added = Requirements(**{name: ('1',)})
    assert getattr(added | added, name) == ('1', '1')
    assert not added.adds
