# SPDX-License-Identifier: Apache-2.0
"""novasched demo --hosts, up to its servers."""

import pytest

from lab.tests.unit.commands.commands import App
from novasched import errors
from novasched.inspection.texts.lines import Style
from novasched_lab.commands.command import COLUMNS
from novasched_lab.commands.demo import RunDemo, held_as_text, result_as_text
from novasched_lab.demo.run import DemoResult
from tests.support.tables.cases import cases


@cases(
    'words, problem',
    ('no broker', ('--hosts', '5'), 'Give --broker rabbit:'),
    ('no hosts', ('--hosts', '0'), 'Try --hosts 200'),
    (
        'another broker',
        ('--hosts', '5', '--broker', 'fake://'),
        '--broker: it is no RabbitMQ',
    ),
    (
        'a broker that is away',
        ('--hosts', '5', '--broker', 'rabbit://u:p@127.0.0.1:1/'),
        '--broker: no broker answers',
    ),
)
def test_unusable_argument_is_named(words, problem):
    command = RunDemo(App(), None)
    parsed = command.get_parser('demo').parse_args(words)
    with pytest.raises(errors.OptionError, match=problem):
        command.run(parsed)


def test_a_configuration_is_not_passed_over_in_silence():
    app = App()
    app.options.config_file = ['nova.conf']
    command = RunDemo(app, None)
    with pytest.raises(errors.OptionError, match='reads no configuration'):
        command.run(command.get_parser('demo').parse_args([]))


def test_result_is_a_table_with_a_summary():
    server = dict.fromkeys(('uuid', 'name', 'status', 'host', 'fault'), 'x')
    moved = {'name': 'vm', 'status': 'confirmed', 'source': 'a', 'destination': 'b'}
    result = DemoResult(2, [server], {'ACTIVE': 1}, 1, 1, moved)
    said = result_as_text(result)
    assert '1 servers on 2 hosts: 1 ACTIVE' in said
    headings = said.splitlines()[1].strip('| ').split('|')
    assert tuple(each.strip() for each in headings) == COLUMNS
    assert 'vm moved from a to b: confirmed' in said
    result.moved = None
    assert 'moved from' not in result_as_text(result)


def test_held_resources_are_one_line():
    held = {'host-1': {'MEMORY_MB': 1024, 'VCPU': 1}}
    assert held_as_text(held, Style()) == 'Holds   MEMORY_MB 1024, VCPU 1 on host-1\n'
    assert held_as_text({}, Style()) == ''
