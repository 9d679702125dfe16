# SPDX-License-Identifier: Apache-2.0
"""The API, made from a configuration."""

import pytest

from novasched import errors
from novasched_lab.api import service

PLACEMENT = '[placement]\nauth_type = none\nendpoint_override = http://127.0.0.1:1/\n'


def configured(directory, text):
    path = directory / 'nova.conf'
    path.write_text(text)
    return service.configure([str(path)])


def test_the_parts_that_a_configuration_names(databases, tmp_path):
    conf = configured(
        tmp_path,
        '[DEFAULT]\ntransport_url = fake://\n'
        f'[api_database]\nconnection = sqlite:///{tmp_path}/api\n{PLACEMENT}',
    )
    with service.opened(conf) as api:
        assert api.database.with_builds() == []
        assert api.cells.with_computes() == []


def test_a_database_that_is_not_named(tmp_path):
    conf = configured(tmp_path, PLACEMENT)
    with pytest.raises(errors.OptionError, match='api_database'), service.opened(conf):
        pass
