# SPDX-License-Identifier: Apache-2.0
"""No option of nova's own is taken to be one of ours, misspelt."""

import re
import subprocess

import pytest
from oslo_config import cfg

from novasched.process import configuration, opts
from tests.live.peer import peer_program

NAMESPACES = (
    'keystonemiddleware.auth_token',
    'nova.conf',
    'os_vif',
    'oslo.cache',
    'oslo.concurrency',
    'oslo.db',
    'oslo.limit',
    'oslo.log',
    'oslo.messaging',
    'oslo.middleware',
    'oslo.policy',
    'oslo.privsep',
    'oslo.reports',
    'oslo.service.periodic_task',
    'oslo.service.service',
    'oslo.service.sslutils',
    'oslo.service.wsgi',
    'oslo.versionedobjects',
)
OPTION = re.compile(r'^#([\w-]+ = ?)', re.MULTILINE)
PLENTY = 900


@pytest.fixture
def everything(tmp_path):
    """A nova.conf that sets every option of nova to what it is anyway."""
    sample, path = tmp_path / 'sample', tmp_path / 'nova.conf'
    words = [f'--namespace={name}' for name in NAMESPACES]
    subprocess.run(
        [peer_program('oslo-config-generator'), *words, f'--output-file={sample}'],
        env={'PATH': '/usr/bin:/bin'},
        capture_output=True,
        timeout=120,
        check=True,
    )
    text, count = OPTION.subn(r'\1', sample.read_text())
    assert count > PLENTY
    path.write_text(text)
    return path


def test_a_file_with_every_option_of_nova_has_none_that_is_misspelt(everything):
    conf = cfg.ConfigOpts()
    configuration.read(conf, [f'--config-file={everything}'], 'nova-scheduler')
    assert list(configuration.misspelt(conf, opts.known())) == []
