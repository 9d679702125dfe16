# SPDX-License-Identifier: Apache-2.0
"""novasched, where it cannot do what it is told."""

import pytest

from novasched.cmd import main, manage


@pytest.mark.parametrize('program', [main.main, manage.main])
def test_unknown_command_gets_no_unrelated_suggestion(program, capsys):
    assert program(['nothing']) != 0
    said = capsys.readouterr().err
    assert "Unknown command ['nothing']" in said
    assert 'complete' not in said
