# SPDX-License-Identifier: Apache-2.0
"""Weighers that nova lacks, from the options to the host."""

import pytest

from novasched import errors
from novasched.db import server_tables
from tests.functional.conftest import Host, new_uuids

ON = {'keep_room_weight_multiplier': 10.0}
FLAVOR = {'name': 'big', 'flavorid': '1', 'vcpus': 4, 'memory_mb': 4096, 'swap': 0}


def test_room_is_kept_for_the_public_flavors(cloud):
    made = cloud([Host('large'), Host('small', memory_mb=3072)])
    made.add('api', server_tables.flavors, **FLAVOR, is_public=True, disabled=False)
    plain = made.compose()
    for name, multiplier in ON.items():
        made.conf.set_override(name, multiplier, 'filter_scheduler')
    keeping = made.compose()
    assert made.ask(plain, new_uuids()) == [['large']]
    assert made.ask(keeping, new_uuids()) == [['small']]
    scored = [[w.name for w in each.weighed.weighings] for each in made.decisions]
    assert ['KeepRoomWeigher' in names for names in scored] == [False, True]


def test_flavor_that_is_nonsense_is_named_at_the_start(cloud):
    made = cloud([], filter_scheduler={'keep_room_flavors': ['m1.small'], **ON})
    with pytest.raises(errors.OptionError) as refused:
        made.compose()
    assert str(refused.value) == (
        "[filter_scheduler] keep_room_flavors: 'm1.small' is not vcpus:ram_mb=share. "
        'List flavors as vcpus:ram_mb or vcpus:ram_mb=share.'
    )
