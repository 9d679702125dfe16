# SPDX-License-Identifier: Apache-2.0
"""What the commands on servers share."""

import pytest

from lab.tests.unit.commands.commands import App
from novasched import errors
from novasched.cmd import main
from novasched_lab.commands.command import wait
from novasched_lab.commands.servers import ListServers


def test_without_a_configuration_one_is_asked_for(tmp_path):
    app = App()
    path = tmp_path / 'nova.conf'
    path.touch()
    app.options.config_file = [str(path)]
    with (
        pytest.raises(errors.OptionError, match=r'not set\. Give --config-file'),
        ListServers(app, None).api(),
    ):
        pass


def test_another_option_is_complained_of_as_it_is(tmp_path):
    app = App()
    path = tmp_path / 'nova.conf'
    path.write_text('[api_database]\nconnection = nonsense\n')
    app.options.config_file = [str(path)]
    with (
        pytest.raises(errors.OptionError, match='not a database URL'),
        ListServers(app, None).api(),
    ):
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
