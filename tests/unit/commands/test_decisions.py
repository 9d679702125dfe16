# SPDX-License-Identifier: Apache-2.0
"""novasched decisions list and count, on the files of a machine."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, ANSWERED, IN_PART, USAGE, a_time
from novasched.commands.decisions import CountDecisions, ListDecisions
from novasched.decisions.writing import DecisionWriter
from novasched.runtime import times
from tests.support.records.stored_records import NOON, make_record, write
from tests.support.tables.cases import cases
from tests.unit.commands.played import App, run

TWO = '4f2a8c01-96c4-43f8-a2d1-1c1b7a0e3a55'
RECORDS = [
    make_record(NOON, 'cmp-1', flavor='small', uuid='one', project_id='p1'),
    make_record(NOON + 60, None, flavor='large', zone='az1', uuid=TWO),
    make_record(NOON + 3600, None, flavor='large', plugin='', blocker='no-candidates',
                code='', request_id='req-x', uuid='7'),
    make_record(NOON + 7200, 'cmp-2', flavor='large', uuid=TWO, servers=3),
]  # fmt: skip
IDS = [record.head.id for record in RECORDS]


@pytest.fixture
def nova_conf(tmp_path):
    path = tmp_path / 'nova.conf'
    directory = tmp_path / 'decisions'
    path.write_text(f'[novasched]\ndecisions_dir = {directory}\n')
    writer = DecisionWriter(directory)
    write(writer, RECORDS)
    writer.close()
    return path


@pytest.fixture
def ask(nova_conf):
    """Run a command on the files of this machine alone."""

    def run_locally(kind, *words, form='json'):
        return run(kind, '--local', *words, form=form, app=App([nova_conf]))

    return run_locally


@cases(
    'words, expected',
    ('all', (), [3, 2, 1, 0]),
    ('of a server', ('--server', TWO), [3, 1]),
    ('of the beginning of a uuid', ('--server', TWO[:8]), [3, 1]),
    ('of a request', ('--request', 'req-x'), [2]),
    ('of a project', ('--project', 'p1'), [0]),
    ('of a flavor', ('--flavor', 'large'), [3, 2, 1]),
    ('of a zone', ('--zone', 'az1'), [1]),
    ('of a host', ('--host', 'cmp-2'), [3]),
    ('of a result', ('--result', 'unschedulable'), [2, 1]),
    ('of a blocker', ('--blocker', 'no-candidates'), [2]),
    ('of a filter', ('--plugin', 'RAMFilter'), [1]),
    ('of a reason', ('--code', 'not-enough-ram'), [1]),
    ('of a year to come', ('--since', '2099-01-01'), []),
    ('since then', ('--since', '2026-09-21T14:13:21Z'), [3, 2, 1]),
    ('until then', ('--until', '2026-09-21T14:14:20'), [0]),
    ('the newest', ('--limit', '2'), [3, 2]),
    ('older ones', ('--before', IDS[2]), [1, 0]),
    ('of both', ('--flavor', 'large', '--result', 'scheduled'), [3]),
)
def test_decisions_are_listed(ask, words, expected):
    code, found, said = ask(ListDecisions, *words)
    assert (code, said) == (ANSWERED, '')
    assert [each['id'] for each in found] == [IDS[number] for number in expected]


@cases(
    ('words', 'said'),
    ('none', ('--limit', '0'), '0 is no number from 1 up'),
    ('a word', ('--limit', 'ten'), 'ten is no number from 1 up'),
    ('no time', ('--since', 'noon'), "'noon' is no time"),
    ('before all time', ('--since', f'{"9" * 14}d'), 'is no time'),
    ('no number, even', ('--until', f'{"9" * 400}w'), 'is no time'),
    ('before the calendar', ('--since', '0001-01-01T00:00+14:00'), 'is no time'),
)
def test_invalid_values_are_usage_errors(ask, capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        ask(ListDecisions, *words)
    assert ended.value.code == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize('id_', ['d-!', 'd-0000000000'])
def test_no_decision_is_older_than_one_that_there_is_not(ask, id_):
    code, text, said = ask(ListDecisions, '--before', id_, form='table')
    assert (code, text) == (ANSWER_IS_NO, '')
    assert said == f'No record is kept of a decision {id_}.\n'


def test_a_scheduler_that_does_not_answer_may_have_the_decision(nova_conf):
    words = ('--before', 'd-0000000000')
    code, _, said = run(ListDecisions, *words, form='table', app=App([nova_conf]))
    assert code == IN_PART
    assert said.endswith(' did not answer.\n')


def test_programs_get_all_but_the_body(ask):
    _, (found,), _ = ask(ListDecisions, '--host', 'cmp-1')
    head = vars(RECORDS[0].head)
    named = {'picked': ['cmp-1'], 'server_uuids': ['one']}
    assert found == {**head, 'at': '2026-09-21T14:13:20.000000Z', **named}


def test_people_get_what_matters(ask):
    _, table, _ = ask(ListDecisions, '--max-width', '80', form='table')
    rows = [
        [each.strip() for each in line.split('|')[1:-1]]
        for line in table.splitlines()
        if '|' in line
    ]
    assert rows == [
        ['Time', 'Server', 'Flavor', 'Result', 'Host or why', 'Took'],
        ['09-21 16:13:20', '4f2a8c01 +2', 'large', 'scheduled', 'cmp-2', '12 ms'],
        ['09-21 15:13:20', '7', 'large', 'no host', 'no-candidates', '12 ms'],
        ['09-21 14:14:20', '4f2a8c01', 'large', 'no host', 'RAMFilter', '12 ms'],
        ['09-21 14:13:20', 'one', 'small', 'scheduled', 'cmp-1', '12 ms'],
    ]
    _, table, _ = ask(ListDecisions, '--long', form='table')
    assert all(f'| {one} |' in table for one in IDS)
    assert f'| {TWO}    |' in table
    assert f'| {TWO} +2 |' in table
    assert 'not-enough-ram' in table


def test_where_nothing_is_found_there_are_headings(ask):
    code, table, _ = ask(
        ListDecisions, '--server', 'none', '--print-empty', form='table'
    )
    assert (code, '| Time |' in table) == (ANSWERED, True)


@cases(
    ('by', 'expected'),
    (
        'plugin',
        'plugin',
        [('(placement)', 1, 'no-candidates'), ('RAMFilter', 1, 'not-enough-ram')],
    ),
    (
        'blocker',
        'blocker',
        [('filters', 1, 'RAMFilter'), ('no-candidates', 1, '(placement)')],
    ),
    ('code', 'code', [('not-enough-ram', 1, 'RAMFilter')]),
    ('flavor', 'flavor', [('large', 3, 'no-candidates'), ('small', 1, 'scheduled')]),
    ('host', 'host', [('cmp-1', 1, 'scheduled'), ('cmp-2', 1, 'scheduled')]),
    (
        'hour',
        'hour',
        [
            ('2026-09-21T14:00Z', 2, 'not-enough-ram'),
            ('2026-09-21T15:00Z', 1, 'no-candidates'),
            ('2026-09-21T16:00Z', 1, 'scheduled'),
        ],
    ),
    ('day', 'day', [('2026-09-21', 4, 'scheduled')]),
    (
        'result',
        'result',
        [('scheduled', 2, 'scheduled'), ('unschedulable', 2, 'no-candidates')],
    ),
    ('zone', 'zone', [('', 3, 'scheduled'), ('az1', 1, 'not-enough-ram')]),
    ('project', 'project', [('project', 3, 'no-candidates'), ('p1', 1, 'scheduled')]),
)
def test_decisions_are_counted(ask, by, expected):
    code, found, _ = ask(CountDecisions, '--by', by)
    total = sum(number for _, number, _ in expected)
    assert code == ANSWERED
    assert found == [
        {
            'value': value,
            'count': number,
            'share': round(number / total, 4),
            'most_often': reason,
        }
        for value, number, reason in expected
    ]


def test_people_get_shares_in_percent(ask):
    _, table, _ = ask(CountDecisions, '--flavor', 'large', form='table')
    assert '| RAMFilter   | 1     | 50.0% | not-enough-ram |' in table


LATE = make_record(NOON - 3600, 'cmp-3\x1b[2J\u202e\n', flavor='large')
"""Written last, when the clock had been set back."""


class Interrupted(ListDecisions):
    """Follows until a record has come; the next look is interrupted."""

    def pause(self, seconds):
        if not self.coming:
            raise KeyboardInterrupt
        write(self.writer, [self.coming.pop()])


@pytest.mark.parametrize('form', ['json', 'table'])
def test_new_decisions_are_followed(ask, nova_conf, form):
    class Here(Interrupted):
        """In the directory of this test."""

        coming = [LATE, make_record(flavor='none')]
        writer = DecisionWriter(nova_conf.with_name('decisions'))

    app = App([nova_conf])
    expected = [*IDS[-2:], LATE.head.id]
    command = Here(app, None)
    parsed = command.get_parser('x').parse_args(
        ['-f', form, '--local', '--follow', '--limit=2', '--until=2026-09-22',
         '--flavor=large']
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt), contextlib.closing(Here.writer):
        command.run(parsed)
    lines = app.stdout.getvalue().splitlines()
    if form == 'json':
        assert [json.loads(line)['id'] for line in lines] == expected
    else:
        assert lines[0].split()[:3] == ['Time', 'Server', 'Flavor']
        assert [line.split()[1] for line in lines[1:]] == [
            *('15:13:20', '16:13:20', '13:13:20')
        ]
        assert r'cmp-3\x1b[2J\u202e\n' in lines[-1]


def test_follow_is_refused_for_csv(ask):
    with pytest.raises(errors.OptionError, match='--follow'):
        ask(ListDecisions, '--follow', form='csv')


def test_missing_log_is_an_option_error(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text(f'[novasched]\ndecisions_dir = {tmp_path}/none\n')
    with pytest.raises(errors.OptionError, match=f'looked into {tmp_path}/none, '):
        run(ListDecisions, '--local', app=App([path]))


def test_schedulers_that_are_not_known_are_named(nova_conf):
    code, found, said = run(ListDecisions, app=App([nova_conf]))
    assert (code, len(found)) == (IN_PART, len(RECORDS))
    assert said.startswith('warning: other schedulers are not known')


@pytest.mark.parametrize('text', ['yesterday', '7 days', '-5m', ''])
def test_a_time_is_a_time(text):
    with pytest.raises(argparse.ArgumentTypeError, match='is no time'):
        a_time(text)


def moment(text):
    return times.moment(text, time.time())


@pytest.fixture(params=['America/New_York', 'Asia/Kolkata'])
def zone_of_machine(request):
    before = os.environ.get('TZ')
    try:
        os.environ['TZ'] = request.param
        time.tzset()
        yield
    finally:
        os.environ.pop('TZ')
        if before is not None:
            os.environ['TZ'] = before
        time.tzset()


def test_age_does_not_depend_on_the_zone_of_the_machine(zone_of_machine):
    assert time.time() - moment('90m') / 1e6 == pytest.approx(5400, abs=5)


def test_times_have_zones_and_durations():
    assert moment('2026-11-22T13:00+01:00') == moment('2026-11-22T12:00')
    assert moment('2d') - moment('1w') == pytest.approx(5 * 86400e6, abs=1e6)


LOADED = """
import sys
from novasched.cmd.main import main
code = main(sys.argv[1:])
heavy = ('sqlalchemy', 'oslo_messaging', 'numpy', 'oslo_db')
print([name for name in heavy if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize('command', ['list', 'count'])
def test_own_files_are_read_without_a_database_or_broker(nova_conf, command):
    words = ['decisions', command, '--local', '--config-file', str(nova_conf)]
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', LOADED, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, '[]\n')
