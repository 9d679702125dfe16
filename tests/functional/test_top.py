# SPDX-License-Identifier: Apache-2.0
"""``novasched top`` as a program: on a terminal, and in a pipe."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time

import pytest
import yaml

from novasched.commands.top import EVERY_S
from novasched.decisions.writing import DecisionWriter
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.live.daemon import own_program
from tests.live.servers.process import completed
from tests.support.records.stored_records import make_record, write
from tests.support.tables.cases import cases

END_S = 60


@pytest.fixture
def conf(tmp_path):
    """The configuration of a machine that has just decided on two servers."""
    path, directory = tmp_path / 'nova.conf', tmp_path / 'decisions'
    path.write_text(f'[novasched]\ndecisions_dir = {directory}\n')
    writer = DecisionWriter(directory)
    now_s = int(SYSTEM_CLOCK.time())
    write(
        writer,
        [
            make_record(now_s - 2, 'cmp-1\x1b]0;x\x07', uuid='aaaaaaaa-1111'),
            make_record(now_s - 1, None, uuid='bbbbbbbb-2222'),
        ],
    )
    writer.close()
    return path


def words(conf, *more):
    return [own_program('novasched'), 'top', '--local', '--config-file', conf, *more]


def in_pipe(conf, *more):
    done = completed(words(conf, *more), timeout_s=END_S)
    assert (done.returncode, done.stderr) == (0, '')
    assert '\033' not in done.stdout
    return done.stdout


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv):
        self.main, self.side = pty.openpty()
        self.before = termios.tcgetattr(self.side)
        env = {**os.environ, 'TERM': 'xterm', 'COLUMNS': '100', 'LINES': '30'}
        streams = dict.fromkeys(('stdin', 'stdout', 'stderr'), self.side)
        self.process = subprocess.Popen(argv, env=env, **streams)
        self.said = ''

    def read(self, within_s):
        ready, _, _ = select.select([self.main], [], [], within_s)
        if ready:
            self.said += os.read(self.main, 65536).decode()
        return bool(ready)

    def wait_for(self, text, count=1):
        """Read until a text was there so often."""
        end_s = time.monotonic() + END_S
        while self.said.count(text) < count:
            assert time.monotonic() < end_s, self.said
            self.read(1)

    def press(self, key):
        os.write(self.main, key.encode())

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.main)
        os.close(self.side)


@pytest.fixture
def interruptible():
    """Programs inherit that Ctrl-C is ignored, as where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def terminal(conf, interruptible):
    opened = Terminal(words(conf))
    yield opened
    opened.close()


def test_a_pipe_gets_one_frame(conf):
    lines = in_pipe(conf).splitlines()
    assert lines[0].startswith('novasched top   1 scheduler   ')
    assert lines[1] == f'{" " * 16}in flight, mean <0.01   p50 12 ms   p99 12 ms'
    assert (
        lines[2]
        == '  last 60 s   scheduled 1   no valid host 1   error 0   records lost 0'
    )
    assert 'bbbbbbbb' in lines[-2]
    assert 'NO VALID HOST  not-enough-ram' in lines[-2]
    assert 'aaaaaaaa' in lines[-1]
    assert r'scheduled      cmp-1\x1b]0;x' in lines[-1]


@cases('form, read', ('json', 'json', json.loads), ('yaml', 'yaml', yaml.safe_load))
def test_programs_get_an_object(conf, form, read):
    found = read(in_pipe(conf, '-f', form))
    assert found['v'] == 1
    assert found['results'] == {'scheduled': 1, 'unschedulable': 1}
    assert [row['result'] for row in found['newest']] == ['unschedulable', 'scheduled']
    assert found['newest'][0]['at'].endswith('Z')


def test_a_terminal_is_drawn_again_until_q(terminal):
    terminal.wait_for('novasched top', 2)
    terminal.press('q')
    assert terminal.process.wait(END_S) == 0
    assert r'cmp-1\x1b]0;x\x07' in terminal.said
    assert '\x1b]' not in terminal.said
    while terminal.read(0):
        pass
    assert terminal.said.count('\033[?1049h') == terminal.said.count('\033[?1049l') == 1
    assert termios.tcgetattr(terminal.side) == terminal.before


def test_p_pauses_and_goes_on(terminal):
    terminal.wait_for('novasched top')
    terminal.press('p')
    terminal.wait_for('paused')
    while terminal.read(0.5):  # the rest of that
        pass
    drawn = terminal.said.count('last 60 s')
    terminal.read(1.5 * EVERY_S)
    assert terminal.said.count('last 60 s') == drawn
    terminal.press('p')
    terminal.wait_for('last 60 s', drawn + 1)
    terminal.press('q')
    assert terminal.process.wait(END_S) == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(terminal):
    terminal.wait_for('novasched top')
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(END_S) == 130
    assert termios.tcgetattr(terminal.side) == terminal.before
