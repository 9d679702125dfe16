# SPDX-License-Identifier: Apache-2.0
"""A conductor is made of its configuration, and keeps its services row."""

import pytest
from oslo_config import cfg

from novasched.db import tables
from novasched_lab import opts
from novasched_lab.conductor import service
from novasched_lab.db import server_tables
from tests.support.suite.waiting import eventually


@pytest.fixture
def configured(databases, tmp_path):
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override('host', 'here')
    made.set_override('transport_url', 'fake://')
    made.set_override('connection', f'sqlite:///{tmp_path}/api', 'api_database')
    made.set_override('connection', f'sqlite:///{tmp_path}/cell', 'database')
    return made


def test_it_serves_until_it_is_stopped(configured, databases):
    made = service.from_conf(configured)
    made.start()
    (row,) = databases.rows(tables.services)
    assert (row['binary'], row['topic'], row['host']) == (
        'nova-conductor',
        'conductor',
        'here',
    )
    eventually(lambda: made.server._started)
    made.stop()
    assert databases.rows(server_tables.build_requests) == []
