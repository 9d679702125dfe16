# SPDX-License-Identifier: Apache-2.0
"""The configuration of oslo.messaging; ours loads it, which chooses threads."""

import pytest
from oslo_config import cfg

from novasched.rpc import transport


@pytest.fixture
def messaging_conf():
    """Return a configuration with what oslo.messaging gives to the global one."""
    conf = cfg.ConfigOpts()
    for group in ('oslo_messaging_metrics', 'oslo_messaging_tracing'):
        conf.register_opts(transport.OPTS.get(group, ()), group=group)
    conf([], default_config_files=[])
    return conf
