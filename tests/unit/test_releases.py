# SPDX-License-Identifier: Apache-2.0
"""Each release of nova, and what is decided otherwise for it than for the newest."""

from __future__ import annotations

import pytest

from novasched import releases
from novasched.objects import notifications
from novasched.objects.base import VERSION
from novasched.objects.image_meta import ImageMetaProps
from novasched.releases import NEWEST, RELEASES, named, of_request, of_service
from novasched.resources import features, prefilters
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.aggregate import AggregateMultiTenancyIsolation
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

EACH = pytest.mark.parametrize('release', RELEASES, ids=str)


def test_releases_follow_each_other():
    assert [each.number for each in RELEASES] == list(range(29, 35))
    versions = [each.service_version for each in RELEASES]
    assert versions == sorted(versions)
    assert all(each.oldest_compute <= each.service_version for each in RELEASES)
    assert NEWEST.image_props == tuple(map(int, ImageMetaProps.VERSION.split('.')))


@cases('name, number',
    ('its number', '29', 29),
    ('its version', '2024.1', 29),
    ('a version of the autumn', '2026.2', 34),
    ('found out', 'auto', None),
    ('no release', '28', None),
)  # fmt: skip
def test_a_release_has_two_names(name, number):
    found = named(name)
    assert (found and found.number) == number


@cases('version, number',
    ('too old', 66, None), ('of two the older', 67, 29), ('31', 68, 31),
    ('between two', 69, 32), ('32', 70, 32), ('on the way to 33', 71, 33),
    ('33', 72, 33), ('on the way to 34', 73, 34), ('34', 74, 34), ('newer', 99, 34),
)  # fmt: skip
def test_the_release_of_a_service(version, number):
    found = of_service(version)
    assert (found and found.number) == number


@cases('release, image_props, number',
    ('a request of 29', 29, (1, 37), 29),
    ('a request of 30', 29, (1, 38), 30),
    ('of the API of a newer one', 29, (1, 44), 30),
    ('an old spec of a server that moves', 30, (1, 30), 30),
    ('no image', 29, (0, 0), 29),
    ('31 is told by its services alone', 31, (1, 44), 31),
)  # fmt: skip
def test_a_request_tells_30_from_29(release, image_props, number):
    assert of_request(named(str(release)), image_props).number == number


def asked(release, **properties):
    """The traits and resources that a request asks for in a cloud of a release."""
    request = factories.request(**properties)
    demands = [each(request) for each in features.of_release(release)]
    demands = [each for each in demands if each is not None]
    traits = frozenset().union(*(each.required for each in demands))
    return traits, [dict(each.resources) for each in demands if each.resources]


TPM = {'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'}


@EACH
def test_the_model_of_a_tpm_counts_since_30(release):
    traits, _ = asked(release, extra_specs=TPM)
    assert 'COMPUTE_SECURITY_TPM_2_0' in traits
    assert ('COMPUTE_SECURITY_TPM_CRB' in traits) == (release.number >= 30)


@EACH
def test_the_model_of_encrypted_memory_counts_since_32(release):
    traits, resources = asked(
        release,
        extra_specs={
            'hw:mem_encryption': 'true',
            'hw:mem_encryption_model': 'amd-sev-es',
        },
        image={'hw_firmware_type': 'uefi'},
    )
    assert resources == [{'MEM_ENCRYPTION_CONTEXT': 1}]
    assert traits == ({'HW_CPU_X86_AMD_SEV_ES'} if release.number >= 32 else set())


@EACH
def test_prefilters_came_one_after_the_other(release):
    names = [each.__name__ for each in prefilters.from_conf(make_conf(), release)]
    since = {
        'virtio_sound_filter': 32,
        'tpm_secret_security_filter': 33,
        'owner_nova_filter': 34,
    }
    expected = [name for name, first in since.items() if release.number >= first]
    assert [name for name in names if name in since] == expected


@EACH
def test_labels_of_payloads(release):
    request = factories.request(image={'hw_disk_bus': 'virtio'})
    label = release.image_props_payload
    payload = notifications.request_spec(request, label)
    image = payload['nova_object.data']['image']['nova_object.data']
    assert image['properties'][VERSION] == label
    assert label == {
        29: '1.13', 30: '1.14', 31: '1.15', 32: '1.18', 33: '1.18', 34: '1.20',
    }[release.number]  # fmt: skip


@EACH
def test_keys_of_tenants_have_suffixes_since_30(release):
    aggregates = [factories.aggregate(filter_tenant_id='a', filter_tenant_id_2='b')]
    filter_ = AggregateMultiTenancyIsolation().of_release(release)
    found = {'a', 'b'} if release.number >= 30 else {'a'}
    assert filter_.reserved_for(aggregates) == found


@EACH
def test_a_profile_has_filters_of_a_release(release):
    class Own(NUMATopologyFilter):
        """A subclass of a site."""

    class OfNova(BaseHostFilter):
        """A plugin, which has no releases, whatever it calls so."""

        of_release = 'nothing of ours'

        def host_passes(self, host_state, spec_obj):
            return False

    filters = factories.adapted([Own(), AggregateMultiTenancyIsolation(), OfNova()])
    profile = Profile(filters, ()).of_release(release)
    assert [type(each) for each in profile.filters] == [type(each) for each in filters]
    within = release.number == 29
    assert profile.fitting.pins_within_free_memory is within
    assert profile.filters[0].fitting == profile.fitting
    assert filters[0].fitting.pins_within_free_memory is False
    assert len(profile.filters[2].apply(factories.hosts(), factories.request())) == 0


def test_names_of_releases_are_the_choices_of_the_option():
    assert releases.NAMES[:3] == ('auto', '29', '2024.1')
