# SPDX-License-Identifier: Apache-2.0
"""What is left for a request of what placement offered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from novasched.drivers.host_candidates import RemainingCapacity


def candidate(provider='rp', **amounts):
    return {'allocations': {provider: {'resources': amounts or {'VCPU': 2}}}}


def summaries(capacity=4, used=0):
    return {'rp': {'resources': {'VCPU': {'capacity': capacity, 'used': used}}}}


class Unread(Mapping):
    """Summaries that nobody may look at."""

    def __getitem__(self, key):
        raise AssertionError(key)

    __iter__ = __len__ = None


@pytest.mark.parametrize(
    ('known', 'taken', 'fits'),
    [
        pytest.param(summaries(), 1, True, id='room for one more'),
        pytest.param(summaries(), 2, False, id='used up by us'),
        pytest.param(summaries(used=1), 1, False, id='used up by us and others'),
        pytest.param(summaries(capacity=5), 2, False, id='too little left'),
        pytest.param({}, 9, True, id='an unknown provider'),
        pytest.param({'rp': {'resources': {}}}, 9, True, id='an unknown class'),
        pytest.param({'rp': None}, 9, True, id='a summary that is none'),
        pytest.param(summaries(capacity=None), 9, True, id='an unknown capacity'),
    ],
)
def test_what_was_taken_is_gone(known, taken, fits):
    room = RemainingCapacity(known)
    for _ in range(taken):
        room.take(candidate())
    assert room.fits(candidate()) is fits


def test_nobody_reads_the_summaries_before_something_is_taken_there():
    room = RemainingCapacity(Unread())
    assert room.fits(candidate())
    room.take(candidate('other'))
    assert room.fits(candidate())


@pytest.mark.parametrize(
    ('wanted', 'fits'),
    [
        pytest.param({'VCPU': 2}, False, id='the same'),
        pytest.param({'VCPU': 3}, False, id='more'),
        pytest.param({'VCPU': 1}, True, id='less'),
        pytest.param({'MEMORY_MB': 512}, True, id='of another class'),
    ],
)
def test_what_was_refused_is_not_worth_another_claim(wanted, fits):
    room = RemainingCapacity({})
    room.refuse(candidate(VCPU=4), ('rp', 'VCPU'))
    room.refuse(candidate(VCPU=2), ('rp', 'VCPU'))
    room.refuse(candidate(VCPU=4), ('rp', 'VCPU'))
    assert room.fits(candidate(**wanted)) is fits
    assert room.fits(candidate('other'))


@pytest.mark.parametrize(
    'exhausted',
    [
        pytest.param(None, id='for another reason'),
        pytest.param(('stranger', 'VCPU'), id='for want of what was not asked for'),
    ],
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


@pytest.mark.parametrize(
    ('taken', 'fits'),
    [
        pytest.param(1, True, id='one less'),
        pytest.param(2, False, id='as many again'),
    ],
)
def test_what_was_refused_together_is_not_worth_another_claim(taken, fits):
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
