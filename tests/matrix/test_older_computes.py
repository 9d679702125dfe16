# SPDX-License-Identifier: Apache-2.0
"""A compute of an older release beside one of this release, as in an upgrade."""

from __future__ import annotations

import os

import pytest

from novasched.releases import named
from tests.matrix.release_cloud import (
    Environment,
    ReleaseCloud,
    at_work,
    host_of,
    hosts_of,
    opened,
)
from tests.matrix.test_release import upgrade_check

OLDER, NEWER = 'mixed-older', 'mixed-newer'


class MixedCloud(ReleaseCloud):
    """The older compute is there first: nova lets no service join that would be the
    oldest of its cell."""

    computes = {
        OLDER: ('cell1', 'fake.MediumFakeDriver'),
        NEWER: ('cell1', 'fake.MediumFakeDriver'),
    }

    def write_service_conf(self, name, cell=None, database='cell0', **sections):
        """Nova wants this where computes are of two releases."""
        sections['upgrade_levels'] = {'compute': 'auto'}
        return super().write_service_conf(name, cell, database, **sections)

    def start_compute(self, name):
        super().start_compute(name)
        self.wait_compute(name)


@pytest.fixture(scope='module')
def older():
    """The programs of the older release."""
    return Environment(os.environ['NOVASCHED_OLDER'])


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, environment, older, servers):
    """Takes the place of the cloud whose computes are all of the release."""
    made = MixedCloud(tmp_path_factory.mktemp('mixed'), servers, environment)
    made.environments[OLDER] = older
    with at_work(made):
        yield made


@pytest.fixture(scope='module')
def api(cloud):
    with opened(cloud) as made:
        yield made


def test_boots_are_served_on_computes_of_both(cloud, api, scheduler, older, release):
    rows = cloud.rows('cell1', 'services', binary='nova-compute')
    versions = {row['host']: row['version'] for row in rows}
    before = named(str(older.nova))
    expected = {OLDER: before.service_version, NEWER: release.service_version}
    assert versions == expected
    assert upgrade_check(cloud)['Older than N-1 computes'] == (0, None)
    for host in cloud.computes:
        assert hosts_of(api, api.boot(host=host)) == [host]
    assert set(hosts_of(api, api.boot(count=4))) == cloud.computes.keys()
    api.delete_all()


def test_a_server_leaves_a_compute_of_the_older_release(cloud, api, scheduler):
    (uuid,) = api.boot(host=OLDER)
    assert host_of(api, uuid) == OLDER
    api.act(uuid, 'migrate')
    api.becomes(uuid, 'VERIFY_RESIZE')
    api.act(uuid, 'confirmResize')
    assert host_of(api, uuid) == NEWER
    api.delete_all()
