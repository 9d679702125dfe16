# SPDX-License-Identifier: Apache-2.0
"""Where the journal is."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched import journal


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        pytest.param({}, None, id='nowhere'),
        pytest.param({'state_path': '/s'}, '/s/novasched', id='beside what nova keeps'),
        pytest.param({'journal_dir': '/j'}, '/j', id='where it is to be'),
        pytest.param(
            {'state_path': '/s', 'journal_dir': '$state_path/j'}, '/s/j', id='of both'
        ),
    ],
)
def test_the_directory(options, expected):
    conf = cfg.ConfigOpts()
    for group, listed in journal.OPTS.items():
        conf.register_opts(listed, None if group == 'DEFAULT' else group)
    conf([], default_config_files=[])
    for name, value in options.items():
        conf.set_override(name, value, 'novasched' if name == 'journal_dir' else None)
    assert journal.directory_of(conf) == expected
