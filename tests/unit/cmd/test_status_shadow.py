# SPDX-License-Identifier: Apache-2.0
"""novasched-status upgrade check --shadow, where neither broker nor accounts matter."""

import contextlib
import sqlite3

import pytest

from novasched.decisions import files
from tests.support.tables.cases import cases
from tests.unit.cmd.status_cloud import CHECKS, FAILURE, SUCCESS

RECORD = ', '.join('0' for _ in files.HEAD)


def judge(cloud, more=''):
    code, verdicts = cloud.judge(more=f'[novasched]\nshadow = true\n{more}')
    return code, verdicts


def test_shadow_has_checks_of_its_own(cloud, tmp_path):
    _, verdicts = judge(cloud, f'decisions_dir = {tmp_path}/own\n')
    own = {'Accounts of databases', 'Account of placement', 'Decisions'}
    assert verdicts.keys() == {*CHECKS, *own} - {'Newer schedulers'}
    assert {verdicts[name] for name in own} == {(SUCCESS, None)}
    says = '[DEFAULT] transport_url: a shadow needs RabbitMQ.'
    assert verdicts['Message queue'] == (FAILURE, says)


@pytest.mark.parametrize('words', [('--shadow',), ()], ids=['with', 'without'])
def test_checks_for_a_shadow_are_made_on_demand(cloud, words):
    _, out, _ = cloud.run(*words)
    assert ('Check: Accounts of databases' in out) == bool(words)


def test_placement_that_refuses_is_a_failure(cloud, placement):
    placement.answer = (403, {})
    result, details = judge(cloud)[1]['Account of placement']
    assert (result, 'needs the role service' in details) == (FAILURE, True)


@cases(
    'tables, result',
    ('a scheduler that serves', [], FAILURE),
    ('a shadow', [files.COMPARED, files.LISTENED], SUCCESS),
)
def test_directory_with_records_of_a_scheduler_is_a_failure(
    cloud, tmp_path, tables, result
):
    path = files.begin(tmp_path, 0, 0.0)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in (*tables, f'INSERT INTO decisions VALUES (1, {RECORD})'):
            connection.execute(statement)
    _, verdicts = judge(cloud, f'decisions_dir = {tmp_path}\n')
    found, details = verdicts['Decisions']
    assert found == result
    if details:
        assert details.startswith(f'{tmp_path} has the records of a novasched-schedul')


def test_command_that_makes_the_directory_is_whole_below_the_table(cloud, tmp_path):
    (tmp_path / 'file').touch()
    more = f'[novasched]\nshadow = true\ndecisions_dir = {tmp_path}/file\n'
    code, out, _ = cloud.run(more=more)
    *_, head, command = out.splitlines()
    assert (code, head) == (FAILURE, 'Commands that mend this:')
    assert command == f'install -d -o nova -g nova -m 0700 {tmp_path}/file'


def test_value_that_is_none_ends_no_check(cloud):
    code, verdicts = cloud.judge(more='[novasched]\nshadow = perhaps\n')
    result, details = verdicts['Options']
    assert (code, result) == (FAILURE, FAILURE)
    assert '[novasched] shadow' in details
