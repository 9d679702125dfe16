# SPDX-License-Identifier: Apache-2.0
"""Commands and paths that documents name: they exist, and take the words shown."""

import functools
import os
import pathlib
import re
import shlex

from cliff.commandmanager import CommandManager

from novasched.cmd import main, manage, status
from novasched.manage.program import CommandProgram
from tests.architecture.conftest import setup_of
from tests.unit.commands import played

ROOT = pathlib.Path(__file__).parents[3]
INSTALLED = '/opt/novasched/'
OURS = re.compile(r'(?:/opt/novasched/bin/|\.venv/bin/)?(novasched(?:-\w+)?)')
OTHERS = {
    'cd', 'chmod', 'chown', 'cp', 'curl', 'done', 'echo', 'for', 'git', 'grep',
    'gunicorn', 'install', 'journalctl',
    'openstack', 'oslo-config-generator', 'oslopolicy-sample-generator', 'pip',
    'python', 'python3', 'python3.11', 'rabbitmqctl', 'sed', 'ssh', 'systemctl',
    'rm', 'systemd-run',
}  # fmt: skip
"""Programs that are not ours, and words of the shell."""


def commands_in(text):
    """The words of each command of a script, without assignments and redirections."""
    # A comment ends before the line does; shlex would join the next one to this.
    bare = re.sub(r'(^|\s)#.*', r'\1', text.replace('\\\n', ' '))
    lexer = shlex.shlex(bare, posix=True, punctuation_chars='();<>|&\n')
    lexer.whitespace = ' \t'
    lexer.whitespace_split = True
    words, into_file = [], False
    for word in [*lexer, '\n']:
        if word.strip() and not re.fullmatch(r'[();<>|&\n]+', word):
            words.append(word)
            continue
        while words and (re.match(r'[A-Z_]+=', words[0]) or words[0] in ('do', '.')):
            words.pop(0)
        if words and not into_file:
            yield words
        words, into_file = [], word[:1] in '<>'


def check_command(words):
    """See that a program exists and takes these words; ours may be run by another."""
    ours = [
        i
        for i, word in enumerate(words)
        if (found := OURS.fullmatch(word)) and found[1] in programs()
    ]
    if ours and (ours[0] == 0 or words[0] == 'systemd-run'):
        check_ours(OURS.fullmatch(words[ours[0]])[1], words[ours[0] + 1 :])
        return
    if words[:2] == ['openstack', 'scheduler']:
        app = played.App()
        app.client_manager = None  # by which commands know the program
        make, name, rest = openstack_commands().find_command(words[1:])
        make(app, None).get_parser(name).parse_args(rest)
        return
    name = words[0].removeprefix(f'{INSTALLED}bin/').removeprefix('.venv/bin/')
    if name.startswith('tools/'):
        assert os.access(ROOT / name, os.X_OK), name
        script = (ROOT / name).read_text()
        flags = [word for word in words[1:] if word.startswith('--')]
        assert [flag for flag in flags if flag not in script] == []
        return
    assert name in OTHERS or name.startswith('/etc/'), f'there is no program {name}'


@functools.cache
def programs():
    """The programs of the distribution."""
    points = setup_of(ROOT)['options.entry_points']['console_scripts']
    return set(re.findall(r'^(\S+) =', points, re.M))


def check_ours(program, words):
    """Have a program parse its words, the command included."""
    if manager := manager_of(program):
        if program != 'novasched':
            _, words = CommandProgram({}).parser.parse_known_args(words)
        make, name, rest = manager.find_command(words)
        make(played.App(), None).get_parser(name).parse_args(rest)
    else:
        check_manual(program, words)


def check_flags(text):
    """See that a command exists, and has the options that a text names."""
    program, *words = re.findall(r'[^\s\[\]|]+', text)
    flags = re.findall(r'(?<![\w-])--?[a-z][\w-]*', text)
    manager = manager_of(program)
    if not manager:
        check_manual(program, flags)
        return
    plain = [word for word in words if re.fullmatch(r'[a-z][\w-]*', word)]
    if any(f'{name} '.startswith(' '.join([*plain, ''])) for name in manager.commands):
        plain = next(
            n for n in manager.commands if n.startswith(' '.join(plain))
        ).split()
    make, name, _ = manager.find_command(plain)
    known_flags = make(played.App(), None).get_parser(name)._option_string_actions
    assert [flag for flag in flags if flag not in known_flags] == []


@functools.cache
def manager_of(program):
    """What finds the commands of a program; None: it has none."""
    if program == 'novasched':
        return CommandManager(main.COMMANDS)
    tables = {'novasched-manage': manage.COMMANDS, 'novasched-status': status.COMMANDS}
    if program not in tables:
        return None
    return CommandProgram(tables[program]).command_manager


@functools.cache
def openstack_commands():
    """What finds our commands of openstack."""
    return CommandManager('openstack.scheduler.v1')


def check_manual(program, words):
    """Look for the options of a program in its manual page, which is generated."""
    page = (ROOT / f'docs/man/{program}.8').read_text().replace('\\-', '-')
    flags = [word for word in words if word.startswith('-')]
    assert [flag for flag in flags if flag not in page] == []


@functools.cache
def share():
    """What is installed: path below the prefix to path in the repository."""
    found = {}
    for directory, lines in setup_of(ROOT)['options.data_files'].items():
        for line in lines.split():
            found[f'{directory}/{pathlib.PurePath(line).name}'] = line
    return found


def check_path(path):
    """See that a path exists: installed, or in the repository."""
    path = path.rstrip('/')
    if path.startswith(INSTALLED):
        path = path.removeprefix(INSTALLED)
        if path.startswith('bin/'):
            assert path[4:] in {*OTHERS, *programs()}, path
            return
    if path.startswith('share'):
        assert any(f'{each}/'.startswith(f'{path}/') for each in share()), path
        return
    assert any(
        (ROOT / top / path).exists()
        for top in ('', 'novasched', 'novasched/scheduler', 'lab')
    ), f'there is no {path}'
