# SPDX-License-Identifier: Apache-2.0
"""Exceptions that plugins raise as nova's."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.compat.exception import NovaException, NoValidHost


class TooHot(NovaException):
    msg_fmt = 'Host %(host)s is too hot.'


@pytest.mark.parametrize(
    ('problem', 'text'),
    [
        pytest.param(NovaException(), 'An unknown exception occurred.', id='nothing'),
        pytest.param(NovaException('so'), 'so', id='a text'),
        pytest.param(TooHot(host='h1'), 'Host h1 is too hot.', id='keywords'),
        pytest.param(TooHot(node='n1'), TooHot.msg_fmt, id='other keywords'),
        pytest.param(NoValidHost('so'), 'so', id='no host, a text'),
        pytest.param(
            NoValidHost(reason='so'), 'No valid host was found. so', id='a reason'
        ),
        pytest.param(NoValidHost(), NoValidHost.msg_fmt, id='no host, nothing'),
    ],
)
def test_text(problem, text):
    assert str(problem) == problem.format_message() == text


def test_callers_find_the_base_where_nova_has_it():
    assert NovaException.__module__ == 'nova.exception'
    assert TooHot(host='h1').kwargs == {'code': 500, 'host': 'h1'}


def test_no_valid_host_is_ours_too():
    assert isinstance(NoValidHost(), errors.NoValidHost)
    assert [NoValidHost(reason='so').reason, NoValidHost('so').reason] == ['so', 'so']
