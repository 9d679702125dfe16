# SPDX-License-Identifier: Apache-2.0
"""Lines of the journal, whole and torn, and the time that they tell."""

from __future__ import annotations

import pytest

from novasched.journal.records import Moment, Record, clock_of_this_boot, parse

BEFORE = {'allocations': {'old': {'resources': {'VCPU': 4}}}, 'project_id': 'p'}
NOW = Moment('boot', 12.5)


def test_a_line_is_read_as_it_was_written(intent):
    first, second = Record(intent(before=BEFORE), NOW), Record(intent('b'), NOW)
    content = first.line() + second.line()
    found = list(parse(content))
    assert [(one.intent, one.written, one.state) for one in found] == [
        (first.intent, NOW, b'o'),
        (second.intent, NOW, b'o'),
    ]
    assert [content[one.offset : one.offset + 1] for one in found] == [b'o', b'o']
    assert found[1].offset == len(first.line())


@pytest.mark.parametrize(
    'torn',
    [
        pytest.param(b'', id='nothing'),
        pytest.param(b'\n', id='an empty line'),
        pytest.param(b'o{"request_id": "req', id='the worker was killed at it'),
        pytest.param(b'o{"request_id": "req\n', id='the disk was full'),
        pytest.param(b'\0\0\0\0\n', id='the power went'),
        pytest.param(b'o[1]\n', id='something else'),
        pytest.param(b'o{"boot": "b", "uptime": null}\n', id='no time'),
    ],
)
def test_a_line_that_is_not_whole_is_none(intent, torn):
    whole = Record(intent(), NOW).line()
    assert [one.intent for one in parse(whole + torn)] == [intent()]
    if torn.endswith(b'\n'):
        assert [one.offset for one in parse(torn + whole)] == [len(torn)]


@pytest.mark.parametrize(
    ('before', 'expected'),
    [
        pytest.param(None, {'p': {'VCPU': 1}}, id='it held nothing'),
        pytest.param(BEFORE, {'p': {'VCPU': 1}, 'old': {'VCPU': 4}}, id='more'),
        pytest.param(
            {'allocations': {'p': {'resources': {'VCPU': 9}}}},
            {'p': {'VCPU': 9}},
            id='what it held of the same provider stays',
        ),
    ],
)
def test_what_a_consumer_holds_after_the_claim(intent, before, expected):
    assert Record(intent(before=before), NOW).holds() == expected


@pytest.mark.parametrize(
    ('earlier', 'expected'),
    [
        pytest.param(Moment('boot', 10.0), 2.5, id='since'),
        pytest.param(Moment('other', 10.0), None, id='another start of the machine'),
        pytest.param(Moment(None, 10.0), None, id='nobody knows which'),
    ],
)
def test_time_is_told_within_one_start_of_the_machine(earlier, expected):
    assert NOW.since(earlier) == expected
    assert Moment(None, 12.5).since(earlier) is None


def test_the_clock_goes_on():
    clock = clock_of_this_boot()
    first, then = clock(), clock()
    assert first.boot_id == then.boot_id
    assert first.uptime_s <= then.uptime_s


def test_a_machine_without_a_name_for_its_start(tmp_path):
    assert clock_of_this_boot(tmp_path / 'missing')().boot_id is None
