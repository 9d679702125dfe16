# SPDX-License-Identifier: Apache-2.0
"""The parts that only read are made once, and closed."""

import pytest

from novasched import app
from novasched.external.silent import SilentNotifier
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from tests.support.clouds.configuration import make_conf


@pytest.fixture
def make_sources(tmp_path):
    """Open the sources of a configuration, with a database of placement or without."""
    databases = {
        group: {'connection': f'sqlite:///{tmp_path}/{group}.sqlite'}
        for group in ('api_database', 'database', 'placement_database')
    }

    def make(has_placement):
        if not has_placement:
            databases.pop('placement_database')
        placement = {'auth_type': 'none', 'endpoint_override': 'http://localhost:1'}
        conf = make_conf(**databases)
        conf([], project='nova', default_config_files=[], default_config_dirs=[])
        for option, value in placement.items():
            conf.set_override(option, value, 'placement')
        return app.reading_sources(conf, SilentNotifier())

    return make


def test_the_engine_of_placements_database_is_disposed_of(make_sources):
    with make_sources(has_placement=True) as sources:
        assert isinstance(sources.providers, DatabaseReader)
        assert not sources.keeps_copy
        engine = sources.providers._database.engine
        pool = engine.pool
    assert engine.pool is not pool


def test_without_its_database_placement_is_read_by_its_api(make_sources):
    with make_sources(has_placement=False) as sources:
        assert isinstance(sources.providers, ApiReader)
