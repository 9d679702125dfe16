# SPDX-License-Identifier: Apache-2.0
"""The command line of novasched-conductor."""

import pytest

from novasched_lab.cmd import conductor


def test_help_names_the_program(capsys):
    with pytest.raises(SystemExit) as ended:
        conductor.main(['--help'])
    assert ended.value.code == 0
    assert 'novasched-conductor' in capsys.readouterr().out
