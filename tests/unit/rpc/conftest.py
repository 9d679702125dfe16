# SPDX-License-Identifier: Apache-2.0
"""Loads oslo.messaging, which warns of a module that it imports itself.

Ours comes first: it chooses threads, and the libraries keep to that.
"""

from __future__ import annotations

import warnings

import pytest
from oslo_config import cfg

import novasched.rpc  # noqa: F401

with warnings.catch_warnings():
    warnings.simplefilter('ignore', DeprecationWarning)
    from oslo_messaging._metrics.client import oslo_messaging_metrics
    from oslo_messaging._tracing.client import oslo_messaging_tracing


@pytest.fixture
def messaging_conf():
    """Return a configuration with what oslo.messaging gives to the global one."""
    conf = cfg.ConfigOpts()
    conf.register_opts(oslo_messaging_metrics, group='oslo_messaging_metrics')
    conf.register_opts(oslo_messaging_tracing, group='oslo_messaging_tracing')
    conf([], default_config_files=[])
    return conf
