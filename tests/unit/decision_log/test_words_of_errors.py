# SPDX-License-Identifier: Apache-2.0
"""A record keeps no words of errors of others, which may quote the request."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.scheduler.filters import BaseHostFilter
from tests.cases import cases
from tests.fakes import FakeDriver
from tests.recordings import Recorded


class Broken(BaseHostFilter):
    """A filter whose error quotes the request."""

    def host_passes(self, host_state, spec_obj):
        raise ValueError('secret')


class Foreign(FakeDriver):
    """A driver of others that finds no host."""

    def __init__(self, parts):
        super().__init__(errors.NoValidHost('all are busy'))


class Wordy(FakeDriver):
    """A driver with a defect, whose error quotes the request."""

    def __init__(self, parts):
        super().__init__(ZeroDivisionError('secret'))


class Strict(FakeDriver):
    """A driver that finds fault with a request, and quotes it."""

    def __init__(self, parts):
        super().__init__(errors.InvalidRequest('no such secret'))


@cases(
    ('options', 'text'),
    {
        'of a plugin': ({'filters': [Broken()]}, 'Broken failed: ValueError'),
        'of a library': ({'driver': Wordy}, ''),
        'on a request that is invalid': ({'driver': Strict}, ''),
        'of ours stay': ({'driver': Foreign}, 'No valid host was found. all are busy'),
    },
)
def test_words_of_others_are_not_kept(options, text):
    recorded = Recorded(**options)
    with pytest.raises(Exception):  # noqa: B017 each kind is in the record
        recorded.ask()
    assert recorded.record.body['error']['text'] == text
    assert 'secret' not in str(recorded.record)
