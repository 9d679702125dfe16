# SPDX-License-Identifier: Apache-2.0
"""novasched-scheduler, from its arguments to its exit code."""

import pytest

from novasched.cmd.scheduler import main
from tests.support.tables.cases import cases


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as raised:
        main(['--version'])
    assert raised.value.code == 0
    assert capsys.readouterr().out.startswith('novasched ')


def test_the_help_names_the_options(capsys):
    with pytest.raises(SystemExit) as raised:
        main(['--help'])
    assert raised.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith('usage: novasched-scheduler ')
    assert 'as nova-scheduler does' in out
    assert '--config-file' in out


@cases(
    'text, words',
    ('a file that is missing', None, 'no.conf'),
    ('a file that makes no sense', 'nonsense', 'no.conf'),
    (
        'a wrong backend',
        '[DEFAULT]\nconcurrency_backend = riddle\n',
        'concurrency_backend',
    ),
)
def test_failure_to_start_is_one_line(tmp_path, capsys, text, words):
    path = tmp_path / 'no.conf'
    if text is not None:
        path.write_text(text)
    assert main(['--config-file', str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith('novasched-scheduler: ')
    assert words in err
    assert 'Traceback' not in err
