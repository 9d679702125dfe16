# SPDX-License-Identifier: Apache-2.0
"""Programs of many commands show controls in all that they print and log."""

import io
import logging

import pytest
from cliff.command import Command

from novasched import errors
from novasched.manage.program import CommandProgram

HOSTILE = 'a\x1b]0;x\x07\x9b\u202e'
SHOWN = r'a\x1b]0;x\x07\x9b\u202e'


@pytest.fixture(autouse=True)
def log():
    """What a program sets for the process."""
    logging.setLogRecordFactory(logging.LogRecord)
    before = list(logging.getLogger('').handlers)
    yield
    logging.getLogger('').handlers[:] = before


class Careless(Command):
    """A command of others that prints what it gets."""

    def take_action(self, parsed_args):
        self.app.stdout.write(f'{HOSTILE}\n\tnext\n')
        self.app.report(errors.StoreFailed('Cell', f'{HOSTILE}\nmysql://u:se@cret@h/'))


def test_a_command_that_takes_no_care():
    out, err = io.StringIO(), io.StringIO()
    program = CommandProgram({'careless': Careless}, stdout=out, stderr=err)
    program.run(['careless'])
    assert out.getvalue() == f'{SHOWN}\n\tnext\n'
    shown = rf'{SHOWN}\nmysql://u:****@h/'
    # Threads of other tests may log, too.
    lines = err.getvalue().splitlines()
    assert f'novasched-manage: Cell could not be asked: {shown}' in lines
