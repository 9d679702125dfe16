# SPDX-License-Identifier: Apache-2.0
"""What comes from outside forges no line of the log, however the log is written."""

import json
import subprocess
import sys

import pytest

FORGED = 'req-1\n2026-01-01 00:00:00 INFO all is well \x1b[2J\u202e'
PROGRAM = """
import logging, sys
from oslo_config import cfg
from oslo_context import context
from oslo_log import log
from novasched.rpc import logs

conf = cfg.ConfigOpts()
log.register_options(conf)
conf(sys.argv[2:], default_config_files=[], default_config_dirs=[])
logs.set_up(conf)
forged = sys.argv[1]
context.RequestContext(request_id=forged, user_id=forged)
try:
    raise ValueError(forged)
except ValueError:
    logging.getLogger('novasched').exception('No host for %s', forged)
"""


@pytest.mark.parametrize('form', ['text', 'json'])
def test_a_request_forges_no_line(tmp_path, form):
    path = tmp_path / 'log'
    words = [FORGED, f'--log-file={path}', *(['--use-json'] if form == 'json' else [])]
    subprocess.run([sys.executable, '-c', PROGRAM, *words], check=True, timeout=60)
    text = path.read_text()
    first, *others = text.splitlines()
    assert r'No host for req-1\n2026-01-01 00:00:00 INFO all is well \x1b[2J' in (
        json.loads(first)['message'] if form == 'json' else first
    )
    assert not any(line.startswith('2026-01-01') for line in others)
    assert not set('\x1b\u202e').intersection(text)
