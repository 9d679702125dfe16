# SPDX-License-Identifier: Apache-2.0
"""A composed scheduler serves the release whose conductors it finds, and follows it."""

from __future__ import annotations

import time

import pytest

from novasched.app.sources import Kept
from novasched.db import tables
from novasched.db.stores import SqlServiceStore
from novasched.objects import context as contexts
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.functional.conftest import Host
from tests.support.databases import databases

MODEL = 'COMPUTE_SECURITY_TPM_TIS'
OPTIONS = {'DEFAULT': {'host': 'b'}, 'novasched': {'check_interval': 1.0}}


def conductor(cloud, name, version):
    row = databases.service(
        host=name,
        binary='nova-conductor',
        version=version,
        last_seen_up=SYSTEM_CLOCK.utcnow(),
    )
    cloud.add('cell0', tables.services, **row)


def store(cloud):
    return SqlServiceStore(cloud.databases['cell0'].cell)


def own_version(cloud):
    rows = cloud.databases['cell0'].rows(tables.services)
    return [row['version'] for row in rows if row['binary'] == 'nova-scheduler']


def traits(scheduler, request):
    """The traits that placement is asked for."""
    _, query = scheduler.manager.attempts.query(contexts.admin(), request)
    return frozenset().union(*(group.required for group in query.groups))


@pytest.fixture
def of_29(cloud):
    """A cloud of nova 29 in which an earlier novasched has written 74."""
    made = cloud([Host('h1')], **OPTIONS)
    conductor(made, 'c1', 67)
    row = databases.service(host='b', binary='nova-scheduler', version=74)
    made.add('cell0', tables.services, **row)
    return made


def of_version(image_props):
    """A request for a TPM from an API that knows this version of image properties."""
    properties = ImageMetaProps().obj_to_primitive()
    properties['nova_object.version'] = image_props
    read = ImageMetaProps.obj_from_primitive(properties)
    return {
        'extra_specs': {'hw:tpm_version': '2.0'},
        'image': None,
    }, ImageMeta(properties=read)


def test_a_row_of_an_earlier_time_gets_the_version_of_the_release(of_29):
    scheduler = of_29.serve(services=store(of_29))
    assert own_version(of_29) == [67]
    assert scheduler.state()['release'] == 'nova 29 (2024.1)'


def test_the_first_request_of_30_is_decided_as_30_and_a_reload_keeps_that(of_29):
    known = Kept()
    scheduler = of_29.compose(services=store(of_29), kept=known)
    for version, asked in (('1.37', False), ('1.38', True), ('1.37', True)):
        values, image = of_version(version)
        request = of_29.request(**values).replaced(image=image)
        scheduler.manager.select_destinations(
            contexts.admin(), of_29.request().replaced(image=image), None, True, False
        )
        assert (MODEL in traits(scheduler, request)) is asked
    again = of_29.compose(services=store(of_29), kept=known)
    assert again.manager.release.number == 30


def test_an_upgrade_is_followed_while_it_serves(of_29):
    scheduler = of_29.serve(services=store(of_29))
    conductor(of_29, 'c2', 72)
    end = time.monotonic() + 30
    while own_version(of_29) != [72]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert scheduler.manager.release.number == 33
    values, image = of_version('1.42')
    assert MODEL in traits(scheduler, of_29.request(**values).replaced(image=image))


def test_a_pinned_release_stays(cloud):
    made = cloud([Host('h1')], novasched={'nova_release': '31', 'check_interval': 1.0})
    conductor(made, 'c1', 74)
    scheduler = made.serve(services=store(made))
    assert own_version(made) == [68]
    assert scheduler.manager.release.number == 31
