# SPDX-License-Identifier: Apache-2.0
"""Lines of the journal, whole and torn, and the time that they tell."""

import json
import zlib

from novasched.journal.store import Moment, Record, clock_of_this_boot, parse
from tests.support.tables.cases import cases

BEFORE = {'allocations': {'old': {'resources': {'VCPU': 4}}}, 'project_id': 'p'}
NOW = Moment('boot', 12.5)


def test_a_line_is_read_as_it_was_written(intent):
    first, second = Record(intent(before=BEFORE), NOW), Record(intent('b'), NOW)
    content = first.line() + second.line()
    found, odd = parse(content)
    assert odd == 0
    assert [(one.intent, one.written, one.state) for one in found] == [
        (first.intent, NOW, b'o'),
        (second.intent, NOW, b'o'),
    ]
    assert [content[one.offset : one.offset + 1] for one in found] == [b'o', b'o']
    assert found[1].offset == len(first.line())


@cases(
    'torn',
    ('nothing', b''),
    ('an empty line', b'\n'),
    ('the worker was killed at it', b'o{"request_id": "req'),
    ('the disk was full', b'o{"request_id": "req\n'),
    ('the power went', b'\0\0\0\0\n'),
    ('something else', b'o[1]\n'),
    ('no time', b'o{"boot": "b", "uptime": null}\n'),
)
def test_a_line_that_is_not_whole_is_none(intent, torn):
    whole = Record(intent(), NOW).line()
    found, odd = parse(whole + torn)
    assert [one.intent for one in found] == [intent()]
    assert odd == torn.endswith(b'\n')
    if torn.endswith(b'\n'):
        assert [one.offset for one in parse(torn + whole).records] == [len(torn)]


def test_a_line_that_was_changed_is_odd(intent):
    whole = Record(intent(), NOW).line()
    changed = {**json.loads(whole[1:]), 'allocations': {'p': 3}}
    odd = json.dumps(changed).encode() + b'\n'
    found = parse(whole + b'o' + odd + whole)
    assert [one.intent for one in found.records] == [intent(), intent()]
    assert found.odd == 1
    assert parse(b's' + odd).odd == 0


@cases(
    'line',
    ('lists in lists', b'o' + b'[' * 200_000),
    ('objects in objects', b'o' + b'{"a":' * 200_000),
    ('no UTF-8', b'o"\xff"'),
    ('a long number', b'o' + b'1' * 10_000),
    ('nothing', b'onull'),
    ('text', b'o"consumer_uuid"'),
    ('much of anything', b'o' + b'x' * 1_000_000),
)
def test_nonsense_is_odd(intent, line):
    whole = Record(intent(), NOW).line()
    found = parse(line + b'\n' + whole)
    assert [one.intent for one in found.records] == [intent()]
    assert found.odd == 1


def _checked(fields):
    """A line of these fields, with its checksum."""
    body = json.dumps(fields).encode()[:-1]
    return b'o%b, "checksum": %d}\n' % (body, zlib.crc32(body))


def _fields(line):
    fields = json.loads(line[1:])
    del fields['checksum']
    return fields


def test_a_field_of_a_newer_version_is_ignored(intent):
    fields = _fields(Record(intent(undo_within_s=12.5), NOW).line())
    (found,), odd = parse(_checked({**fields, 'color': 'red'}))
    assert odd == 0
    assert found.intent == intent(undo_within_s=12.5)


@cases(
    'change',
    ('it lacks the consumer', {'consumer_uuid': None}),
    ('it lacks how long a caller waits', {'undo_within_s': None}),
    ('it lacks the start of the machine', {'boot': None}),
    ('another URL', {'consumer_uuid': '../resource_providers'}),
    ('a number for a consumer', {'consumer_uuid': 7}),
    ('a provider of a shell', {'allocations': {'a b; c': {}}}),
    ('allocations that are a number', {'allocations': 5}),
)
def test_line_with_missing_or_impossible_values_is_odd(intent, change):
    fields = _fields(Record(intent(), NOW).line()) | change
    made = {name: fields[name] for name in fields if change.get(name, 0) is not None}
    assert parse(_checked(made)) == ([], 1)


def test_a_line_of_another_version_is_odd(intent):
    """One has another state. One has no checksum; settled, it does not matter."""
    line = Record(intent(), NOW).line()
    assert parse(b'x' + line[1:]) == ([], 1)
    fields = json.dumps(_fields(line)).encode()
    assert parse(b'o' + fields + b'\n') == ([], 1)
    assert parse(b's' + fields + b'\n') == ([], 0)


@cases(
    ('before', 'expected'),
    ('it held nothing', None, {'p': {'VCPU': 1}}),
    ('more', BEFORE, {'p': {'VCPU': 1}, 'old': {'VCPU': 4}}),
    (
        'what it held of the same provider stays',
        {'allocations': {'p': {'resources': {'VCPU': 9}}}},
        {'p': {'VCPU': 9}},
    ),
)
def test_record_adds_the_claim_to_the_earlier_allocation(intent, before, expected):
    assert Record(intent(before=before), NOW).holds() == expected


@cases(
    'earlier, expected',
    ('since', Moment('boot', 10.0), 2.5),
    ('now, but rounded', Moment('boot', 12.5 + 2**-7), -(2**-7)),
    ('a clock that began later', Moment('boot', 12.75), None),
    ('another start of the machine', Moment('other', 10.0), None),
    ('nobody knows which', Moment(None, 10.0), None),
)
def test_time_is_known_within_one_boot_only(earlier, expected):
    assert NOW.since(earlier) == expected
    assert Moment(None, 12.5).since(earlier) is None


def test_the_clock_goes_on_where_its_start_has_a_name(tmp_path):
    clock = clock_of_this_boot()
    first, then = clock(), clock()
    assert first.boot_id == then.boot_id
    assert first.uptime_s <= then.uptime_s
    assert clock_of_this_boot(tmp_path / 'missing')().boot_id is None
