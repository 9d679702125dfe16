# SPDX-License-Identifier: Apache-2.0
"""The scripts can be run."""

import os
import subprocess


def test_every_script_is_executable_and_parses(root):
    scripts = [*(root / 'tools').iterdir(), root / '.ci' / 'run']
    for script in scripts:
        assert os.access(script, os.X_OK), script
        if script.read_text().startswith('#!/bin/bash'):
            subprocess.run(['bash', '-n', script], check=True)
