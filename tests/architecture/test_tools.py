# SPDX-License-Identifier: Apache-2.0
"""The scripts can be run."""

import os
import subprocess
import sys

from tests.live.servers.process import completed


def test_every_script_is_executable_and_parses(root):
    scripts = [*(root / 'tools').iterdir(), root / '.ci' / 'run']
    for script in scripts:
        assert os.access(script, os.X_OK), script
        if script.read_text().startswith('#!/bin/bash'):
            subprocess.run(['bash', '-n', script], check=True)


def test_demo_installs_what_the_page_of_the_console_does(root):
    (line,) = [
        line
        for line in (root / 'docs/console.md').read_text().splitlines()
        if line.startswith('tools/venv .venv ')
    ]
    arguments = line.removeprefix('tools/venv .venv ')
    assert f'"$root/tools/venv" .venv {arguments} ' in (root / 'tools/demo').read_text()


def test_tests_run_without_a_cache(root):
    words = (
        '-n',
        '0',
        '-q',
        '-p',
        'no:cacheprovider',
        'tests/unit/runtime/test_deadline.py',
    )
    done = completed([sys.executable, '-m', 'pytest', *words], cwd=root)
    assert (done.returncode, done.stderr) == (0, ''), done.stdout
