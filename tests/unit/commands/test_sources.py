# SPDX-License-Identifier: Apache-2.0
"""The connection by which commands ask the schedulers of other machines."""

import contextlib

import pytest
from oslo_config import cfg

from novasched.commands import sources
from novasched.process import configuration


@pytest.mark.parametrize(('release', 'speaks_tls'), [('29', True), ('31', False)])
def test_the_broker_is_asked_by_the_names_of_the_release(tmp_path, release, speaks_tls):
    path = tmp_path / 'nova.conf'
    path.write_text(
        '[DEFAULT]\ntransport_url = rabbit://127.0.0.1:1/\n'
        '[oslo_messaging_rabbit]\nrabbit_use_ssl = true\n'
        f'[novasched]\nnova_release = {release}\n'
    )
    conf = cfg.ConfigOpts()
    configuration.read(conf, ['--config-file', str(path)], 'nova-scheduler')
    with contextlib.closing(sources._client(conf)) as client:
        assert client._transport.conf.oslo_messaging_rabbit.ssl is speaks_tls
