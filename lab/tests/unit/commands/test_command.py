# SPDX-License-Identifier: Apache-2.0
"""What the commands on servers share."""

import pytest

from lab.tests.unit.commands.commands import App
from novasched import errors
from novasched.cmd import main
from novasched_lab.commands.command import wait
from novasched_lab.commands.servers import ListServers
from tests.support.tables.cases import cases


@cases(
    'text, says',
    ('no configuration', '', r'not set\. Give --config-file'),
    (
        'another problem',
        '[api_database]\nconnection = nonsense\n',
        'not a database URL',
    ),
)
def test_missing_database_is_named_with_a_remedy(tmp_path, text, says):
    app = App()
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    app.options.config_file = [str(path)]
    command = ListServers(app, None)
    with pytest.raises(errors.OptionError, match=says), command.api():
        pass


@pytest.mark.parametrize(
    'words', [('--config-file', '/nowhere', 'list'), ('list', '--config-file=/nowhere')]
)
def test_a_configuration_stands_before_or_after_the_command(words, capsys):
    assert main.main(list(words)) == 1
    assert capsys.readouterr().err == 'Failed to find some config files: /nowhere\n'


def test_user_and_project_come_from_arguments():
    command = ListServers(App(), None)
    parsed = command.get_parser('x').parse_args(['--project-id', 'p', '--user-id', 'u'])
    made = command.context(parsed)
    assert (made.project_id, made.user_id) == ('p', 'u')


def test_a_wait_ends_with_what_is_waited_for():
    answers = iter([False, True])
    assert wait(lambda: next(answers), 60)
    assert not wait(lambda: False, -1)
