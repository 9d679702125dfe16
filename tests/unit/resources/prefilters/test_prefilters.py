# SPDX-License-Identifier: Apache-2.0
"""What prefilters add to a request."""

import pytest

from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec
from novasched.resources import PrefilterContext, Requirements, prefilters
from novasched.resources.prefilters.traits import compute_status_filter
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf


def spec(extra_specs=None, **fields):
    return RequestSpec(flavor=Flavor(extra_specs=extra_specs or {}), **fields)


ZONES = PrefilterContext(
    (Aggregate(2, 'A2', 'name', metadata={'availability_zone': 'az2'}),)
)


def conf(**values):
    made = make_conf()
    for name, value in values.items():
        made.set_override(name, value, 'scheduler')
    return made


def test_all_that_are_on_run_in_their_order():
    request = spec({'accel:device_profile': 'fpga'}, availability_zone='az2')
    facts = PrefilterContext(ZONES.aggregates, 74)
    added = prefilters.run(prefilters.from_conf(conf()), request, facts)
    assert added.root_required == {'COMPUTE_ACCELERATORS', 'OWNER_NOVA'}
    assert added.root_forbidden == {'COMPUTE_STATUS_DISABLED'}
    assert added.member_of == (frozenset({'A2'}),)
    notes = [note for note in added.notes if ' took ' not in note]
    assert [note.split()[0] for note in notes] == [
        'map_az_to_placement_aggregate',
        'compute_status_filter',
        'accelerators_filter',
        'ephemeral_encryption_filter',
        'virtio_sound_filter',
        'tpm_secret_security_filter',
        'Added',
    ]


OPTIONAL = {
    'require_tenant_aggregate': 'limit_tenants_to_placement_aggregate',
    'require_image_type_support': 'query_placement_for_image_type_support',
    'isolate_aggregates': 'enable_isolated_aggregate_filtering',
    'transform_image_metadata': 'image_metadata_prefilter',
    'routed_networks_filter': 'query_placement_for_routed_network_aggregates',
}
ALL = [
    'require_tenant_aggregate',
    'map_az_to_placement_aggregate',
    'require_image_type_support',
    'compute_status_filter',
    'isolate_aggregates',
    'transform_image_metadata',
    'accelerators_filter',
    'packed_virtqueue_filter',
    'routed_networks_filter',
    'remote_managed_ports_filter',
    'ephemeral_encryption_filter',
    'virtio_sound_filter',
    'tpm_secret_security_filter',
    'owner_nova_filter',
]


@pytest.mark.parametrize('on', [{}, OPTIONAL, *({name} for name in OPTIONAL)])
def test_options_turn_prefilters_on(on):
    made = conf(**{OPTIONAL[name]: True for name in on})
    names = [prefilter.__name__ for prefilter in prefilters.from_conf(made)]
    assert names == [name for name in ALL if name not in OPTIONAL or name in on]


def test_options_go_to_their_prefilters():
    made = conf(
        limit_tenants_to_placement_aggregate=True,
        placement_aggregate_required_for_tenants=True,
        image_metadata_prefilter=True,
    )
    made.set_override('image_metadata_prefilter_by_property', True, 'novasched')
    on = {each.__name__: each for each in prefilters.from_conf(made)}
    request = factories.request(
        image={'hw_disk_bus': 'virtio', 'hw_viommu_model': 'auto'}
    )
    assert on['require_tenant_aggregate'](request, PrefilterContext()).refused
    assert on['transform_image_metadata'](
        request, PrefilterContext()
    ).root_required == {'COMPUTE_STORAGE_BUS_VIRTIO'}


def test_the_first_refusal_is_the_last_word():
    def refuse(request, facts):
        return Requirements(refused='no')

    def never(request, facts):
        raise AssertionError

    added = prefilters.run(
        [compute_status_filter, refuse, never], spec(), PrefilterContext()
    )
    assert added.refused == 'no'
    assert added.root_forbidden == {'COMPUTE_STATUS_DISABLED'}


def test_it_is_noted_how_long_each_took():
    def silent(request, facts):
        return Requirements(notes=('nothing',))

    ticks = iter([1.0, 1.0, 3.52, 4.0]).__next__
    added = prefilters.run(
        [silent, compute_status_filter], spec(), PrefilterContext(), ticks
    )
    assert added.notes[-1] == "Request filter 'compute_status_filter' took 2.5 seconds"
    assert added.notes[0] == 'nothing'


def test_zones_can_be_left_to_a_filter():
    on = prefilters.from_conf(conf(query_placement_for_availability_zone=False))
    added = prefilters.run(on, spec(availability_zone='az2'), ZONES)
    assert added.member_of == ()
