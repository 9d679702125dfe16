# SPDX-License-Identifier: Apache-2.0
"""The import contracts of pyproject.toml are kept."""

from __future__ import annotations

import pathlib
import subprocess
import sys


def test_the_import_contracts_are_kept(root):
    lint_imports = pathlib.Path(sys.executable).with_name('lint-imports')
    run = subprocess.run(
        [lint_imports, '--no-cache', '--no-logo'],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
