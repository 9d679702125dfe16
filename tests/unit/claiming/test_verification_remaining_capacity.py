# SPDX-License-Identifier: Apache-2.0
"""What is left for a request of what placement offered."""

from collections.abc import Mapping

import pytest

from novasched.claiming.verification import RemainingCapacity
from tests.support.tables.cases import cases


def candidate(provider='rp', **amounts):
    return {'allocations': {provider: {'resources': amounts or {'VCPU': 2}}}}


def summaries(capacity=4, used=0):
    return {'rp': {'resources': {'VCPU': {'capacity': capacity, 'used': used}}}}


class Unread(Mapping):
    """Summaries that nobody may look at."""

    def __getitem__(self, key):
        raise AssertionError(key)

    __iter__ = __len__ = None


@cases(
    'known, taken, fits',
    ('room for one more', summaries(), 1, True),
    ('used up by us', summaries(), 2, False),
    ('used up by us and others', summaries(used=1), 1, False),
    ('too little left', summaries(capacity=5), 2, False),
    ('an unknown provider', {}, 9, True),
    ('an unknown class', {'rp': {'resources': {}}}, 9, True),
    ('a summary that is none', {'rp': None}, 9, True),
    ('an unknown capacity', summaries(capacity=None), 9, True),
)
def test_own_claims_reduce_the_remaining_capacity(known, taken, fits):
    room = RemainingCapacity(known)
    for _ in range(taken):
        room.take(candidate())
    assert room.fits(candidate()) is fits


def test_summaries_are_unread_until_the_provider_is_used():
    room = RemainingCapacity(Unread())
    assert room.fits(candidate())
    room.take(candidate('other'))
    assert room.fits(candidate())


@cases(
    'wanted, fits',
    ('the same', {'VCPU': 2}, False),
    ('more', {'VCPU': 3}, False),
    ('less', {'VCPU': 1}, True),
    ('of another class', {'MEMORY_MB': 512}, True),
)
def test_refused_amount_is_not_tried_again(wanted, fits):
    room = RemainingCapacity({})
    room.refuse(candidate(VCPU=4), ('rp', 'VCPU'))
    room.refuse(candidate(VCPU=2), ('rp', 'VCPU'))
    room.refuse(candidate(VCPU=4), ('rp', 'VCPU'))
    assert room.fits(candidate(**wanted)) is fits
    assert room.fits(candidate('other'))


@cases(
    'exhausted',
    ('for another reason', None),
    ('for want of what was not asked for', ('stranger', 'VCPU')),
)
def test_other_refusals_say_nothing_about_room(exhausted):
    room = RemainingCapacity({})
    room.refuse(candidate(), exhausted)
    assert room.fits(candidate())


def test_a_copy_goes_its_own_way():
    room = RemainingCapacity(summaries())
    room.take(candidate())
    copy = room.copy()
    copy.take(candidate())
    copy.refuse(candidate('other'), ('other', 'VCPU'))
    assert room.fits(candidate())
    assert room.fits(candidate('other'))
    assert not copy.fits(candidate())
    assert not copy.fits(candidate('other'))
    assert not copy.copy().fits(candidate())


@cases('taken, fits', ('one less', 1, True), ('as many again', 2, False))
def test_amounts_refused_together_are_not_tried_again(taken, fits):
    room = RemainingCapacity({})
    room.refuse_all([candidate(), candidate('other'), candidate()], ('rp', 'VCPU'))
    room.refuse_all([candidate()] * 3, ('rp', 'VCPU'))
    assert room.fits_all([candidate()] * taken) is fits
    assert room.copy().fits_all([candidate()] * taken) is fits
    assert room.fits_all([candidate('other')] * 9)


@pytest.mark.parametrize('exhausted', [None, ('stranger', 'VCPU')])
def test_other_refusals_together_say_nothing_about_room(exhausted):
    room = RemainingCapacity({})
    room.refuse_all([candidate(), candidate()], exhausted)
    assert room.fits_all([candidate()] * 9)
