# SPDX-License-Identifier: Apache-2.0
"""The scripts can be run, and the sample configuration file can be made."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def test_every_script_is_executable_and_parses(root):
    scripts = [*(root / 'tools').iterdir(), root / '.ci' / 'run']
    for script in scripts:
        assert os.access(script, os.X_OK), script
        if script.read_text().startswith('#!/bin/bash'):
            subprocess.run(['bash', '-n', script], check=True)


def test_the_sample_configuration_file_is_generated(root, tmp_path):
    sample = tmp_path / 'novasched.conf.sample'
    generator = pathlib.Path(sys.executable).with_name('oslo-config-generator')
    run = subprocess.run(
        [
            generator,
            '--config-file=etc/novasched/config-generator.conf',
            f'--output-file={sample}',
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    text = sample.read_text()
    for group in (
        'DEFAULT',
        'api_database',
        'filter_scheduler',
        'placement',
        'scheduler',
    ):
        assert f'\n[{group}]\n' in '\n' + text, group
