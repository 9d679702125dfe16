# SPDX-License-Identifier: Apache-2.0
"""How long messages waited, and whether the broker is there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from novasched.rpc.waiting import Unobserved, problem_of, waited_s


class Message(dict):
    """A message, with or without what the broker adds."""

    def __init__(self, headers=None):
        super().__init__(method='select_destinations')
        if headers is not None:
            self._raw_message = SimpleNamespace(headers=headers)


STOPWATCH = SimpleNamespace(elapsed=lambda: 0.5)


@pytest.mark.parametrize(
    ('headers', 'stopwatch', 'expected'),
    [
        pytest.param({'timestamp_in_ms': 98_000}, STOPWATCH, 2.0, id='the broker says'),
        pytest.param({'timestamp_in_ms': 101_000}, STOPWATCH, 0.0, id='clocks differ'),
        pytest.param({'timestamp_in_ms': 'x'}, STOPWATCH, 0.5, id='it says nonsense'),
        pytest.param({}, STOPWATCH, 0.5, id='it says nothing'),
        pytest.param(None, STOPWATCH, 0.5, id='there is no broker'),
        pytest.param(None, None, None, id='nobody knows'),
    ],
)
def test_the_wait_is_since_the_broker_or_else_a_worker_got_it(
    headers, stopwatch, expected
):
    incoming = SimpleNamespace(message=Message(headers))
    if stopwatch:
        incoming.stopwatch = stopwatch
    assert waited_s(incoming, lambda: 100.0) == expected


def server(**connection):
    driver = SimpleNamespace(connection=SimpleNamespace(**connection))
    conn = SimpleNamespace(connection=driver)
    poll = SimpleNamespace(conn=conn)
    return SimpleNamespace(listener=SimpleNamespace(_poll_style_listener=poll))


@pytest.mark.parametrize(
    ('asked', 'expected'),
    [
        pytest.param(server(connected=True), None, id='connected'),
        pytest.param(
            server(connected=False), 'the connection to the broker is lost', id='lost'
        ),
        pytest.param(
            SimpleNamespace(listener=None), 'the server does not listen', id='stopped'
        ),
    ],
)
def test_a_lost_connection_is_a_problem(asked, expected):
    assert problem_of(asked) == expected


def test_without_an_observer_it_is_known_what_is_under_way():
    unobserved = Unobserved()
    unobserved.arrived(1.0)
    unobserved.queued(1, 0.0)
    unobserved.taken(1)
    unobserved.placed(1)
    with unobserved.attempt(), unobserved.attempt():
        assert all(since >= 0.0 for since in unobserved.under_way())
        assert len(unobserved.under_way()) == 2
    assert unobserved.under_way() == []
    assert unobserved.finished() == 2
