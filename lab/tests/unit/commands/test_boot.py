# SPDX-License-Identifier: Apache-2.0
"""novasched boot, up to the conductor."""

import pytest

from lab.tests.unit.commands.commands import run
from novasched import errors
from novasched_lab.commands.servers import BootServers
from tests.support.tables.cases import cases

MINE = ('--project-id', 'project', '--user-id', 'user')


def built(made):
    """Let a conductor build whatever it is asked for, at once."""

    def build(builds):
        for each in builds:
            made.build(each.instance_uuid)

    made.conductor._keep = lambda what, builds, *rest: build(builds)


def test_a_server_is_built(made):
    built(made)
    code, (server,), said = run(BootServers, made.api_context, 'one', *MINE)
    assert (code, said) == (0, '')
    assert (server['Name'], server['Status'], server['Host'], server['Fault']) == (
        'one',
        'ACTIVE',
        'h1',
        None,
    )
    (found,) = made.servers.all()
    assert found.project_id == 'project'


def test_boot_with_no_wait_returns_at_once(made):
    code, (server,), said = run(BootServers, made.api_context, '--no-wait')
    assert (code, server['Status'], said) == (0, 'BUILD', '')


def test_boot_waits_no_longer_than_its_timeout(made):
    code, (server,), said = run(BootServers, made.api_context, '--timeout', '0')
    assert (code, server['Status']) == (1, 'BUILD')
    assert said == (
        'Not all are built after 0 s. See novasched show, and the logs of conductor, '
        'scheduler and computes.\n'
    )


def test_a_server_that_was_deleted_meanwhile_is_not_passed_over(made):
    def build(what, builds, *rest):
        first, second = (each.instance_uuid for each in builds)
        made.build(first)
        made.api.forget(second)

    made.conductor._keep = build
    code, found, said = run(BootServers, made.api_context, 'web', '--count', '2', *MINE)
    assert (code, said) == (1, '')
    assert [(each['Name'], each['Status']) for each in found] == [
        ('web-1', 'ACTIVE'),
        ('web-2', 'DELETED'),
    ]


def test_all_that_is_asked_for_reaches_the_request(made):
    run(
        BootServers, made.api_context, 'web', '--no-wait', '--group', 'web', '--policy',
        'anti-affinity', '--max-per-host', '2', '--hint', 'a=1', '--hint', 'a=2',
        '--host', 'h1', '--availability-zone', 'nova', '--flavor', 'm1.large',
    )  # fmt: skip
    ((_, _, (request,), _),) = made.conductor.asked
    assert request.scheduler_hints['a'] == ['1', '2']
    assert request.requested_destination.host == 'h1'
    assert request.availability_zone == 'nova'
    assert request.flavor.vcpus == 4
    assert request.instance_group.policy == 'anti-affinity'
    assert request.instance_group.rules == {'max_server_per_host': 2}


@cases(
    'words, problem',
    ('no group', ('--policy', 'affinity'), 'Give --group'),
    ('no hint', ('--hint', 'a'), 'Write key=value'),
    ('no flavor', ('--flavor', 'x'), 'there is no flavor x'),
    ('no image', ('--image', 'x'), 'there is no image x'),
    (
        'no zone',
        ('--availability-zone', 'mars', '--group', 'web', '--policy', 'affinity'),
        r'there is no zone mars\. Name one of nova\.$',
    ),
)
def test_invalid_argument_is_refused(made, words, problem):
    with pytest.raises(errors.OptionError, match=problem):
        run(BootServers, made.api_context, '--no-wait', *words)
    assert made.servers.all() == []
    assert made.api_context.groups.find('web', 'admin') is None


def test_a_count_is_a_number(made, capsys):
    with pytest.raises(SystemExit):
        run(BootServers, made.api_context, '--count', 'many')
    assert 'many is no number from 1 up' in capsys.readouterr().err
