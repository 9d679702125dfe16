# SPDX-License-Identifier: Apache-2.0
"""What prefilters add to a request."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched.objects.flavor import Flavor
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import (
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
)
from novasched.resources import Facts, Requirements, prefilters
from novasched.resources.prefilters.accelerators import accelerators_filter
from novasched.resources.prefilters.availability_zone import (
    map_az_to_placement_aggregate,
)
from novasched.resources.prefilters.compute_status import compute_status_filter
from novasched.resources.prefilters.owner_nova import owner_nova_filter
from novasched.scheduler.aggregates import Aggregate
from tests import factories

R1, R2 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(2))
OWNER = frozenset({'OWNER_NOVA'})


def spec(extra_specs=None, **fields):
    return RequestSpec(flavor=Flavor(extra_specs=extra_specs or {}), **fields)


def zone(number, name):
    metadata = {} if name is None else {'availability_zone': name}
    return Aggregate(number, f'A{number}', 'name', metadata=metadata)


ZONES = Facts((zone(1, 'az1'), zone(2, 'az2'), zone(3, 'az1'), zone(4, None)))


def test_disabled_computes_are_left_out():
    assert compute_status_filter(spec(), Facts()) == Requirements(
        root_forbidden=frozenset({'COMPUTE_STATUS_DISABLED'}),
        notes=(
            'compute_status_filter request filter added forbidden trait '
            'COMPUTE_STATUS_DISABLED',
        ),
    )


@pytest.mark.parametrize(
    ('extra_specs', 'traits'),
    [
        pytest.param({}, None, id='no device profile'),
        pytest.param({'accel:device_profile': ''}, None, id='an empty one'),
        pytest.param(
            {'accel:device_profile': 'fpga'}, {'COMPUTE_ACCELERATORS'}, id='one'
        ),
    ],
)
def test_accelerators(extra_specs, traits):
    added = accelerators_filter(spec(extra_specs), Facts())
    assert (added and added.root_required) == traits


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(None, id='none'),
        pytest.param('', id='an empty one'),
        pytest.param('nova', id='one without aggregates'),
    ],
)
def test_zones_that_restrict_nothing(name):
    assert map_az_to_placement_aggregate(spec(availability_zone=name), ZONES) is None


def test_an_unset_zone_restricts_nothing():
    assert map_az_to_placement_aggregate(spec(), ZONES) is None


def test_a_zone_is_one_of_its_aggregates():
    added = map_az_to_placement_aggregate(spec(availability_zone='az1'), ZONES)
    assert added == Requirements(
        member_of=(frozenset({'A1', 'A3'}),),
        notes=(
            'map_az_to_placement_aggregate request filter added aggregates A1,A3 '
            "for az 'az1'",
        ),
    )


def test_old_computes_do_not_mark_their_providers():
    added = owner_nova_filter(spec(), Facts(minimum_compute_version=72))
    assert added == Requirements(
        warnings=(
            'OWNER_NOVA trait not added to scheduling request: not all nova-compute '
            'services are upgraded (min_version=72, need 73).',
        )
    )


def test_new_computes_mark_their_providers():
    added = owner_nova_filter(spec(), Facts(minimum_compute_version=73))
    assert (added.root_required, added.group_required) == (OWNER, {})
    assert added.warnings == ()


def test_a_request_may_ask_for_nova_itself():
    params = RequestLevelParams(root_required={'OWNER_NOVA'})
    assert owner_nova_filter(spec(request_level_params=params), Facts()) is None


def test_pci_groups_are_of_nova_but_those_of_ports_are_not():
    requests = [
        InstancePCIRequest(request_id=R1, alias_name='gpu'),
        InstancePCIRequest(request_id=R2, alias_name=None),
    ]
    suffixes = [f'{R1}-0', f'{R1}-1', f'{R2}-0', R1, None]
    asked = spec(
        pci_requests=InstancePCIRequests(requests=requests),
        requested_resources=[RequestGroup(requester_id=s) for s in suffixes],
    )
    added = owner_nova_filter(asked, Facts(minimum_compute_version=74))
    assert added.group_required == {f'{R1}-0': OWNER, f'{R1}-1': OWNER}
    assert len(added.notes) == 2
    assert all(not group.required_traits for group in asked.requested_resources)


def test_requirements_add_up():
    one = Requirements(frozenset('a'), frozenset('b'), (frozenset('c'),), notes=('1',))
    two = Requirements(
        frozenset('d'),
        not_member_of=frozenset('e'),
        member_of=(frozenset('f'),),
        group_required={'x': OWNER},
        warnings=('2',),
    )
    assert one | two == Requirements(
        frozenset('ad'),
        frozenset('b'),
        (frozenset('c'), frozenset('f')),
        frozenset('e'),
        {'x': OWNER},
        ('2',),
        ('1',),
    )


@pytest.mark.parametrize('name', ['failures', 'warnings', 'notes'])
def test_lines_for_the_log_demand_nothing(name):
    added = Requirements(**{name: ('1',)})
    assert getattr(added | added, name) == ('1', '1')
    assert not added.adds


def conf(**values):
    made = cfg.ConfigOpts()
    for group, listed in prefilters.OPTS.items():
        made.register_opts(listed, group)
    for name, value in values.items():
        made.set_override(name, value, 'scheduler')
    return made


def test_all_that_are_on_run_in_their_order():
    request = spec({'accel:device_profile': 'fpga'}, availability_zone='az2')
    facts = Facts(ZONES.aggregates, 74)
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
    assert on['require_tenant_aggregate'](request, Facts()).refused
    assert on['transform_image_metadata'](request, Facts()).root_required == {
        'COMPUTE_STORAGE_BUS_VIRTIO'
    }


def test_the_first_refusal_is_the_last_word():
    def refuse(request, facts):
        return Requirements(refused='no')

    def never(request, facts):
        raise AssertionError

    added = prefilters.run([compute_status_filter, refuse, never], spec(), Facts())
    assert added.refused == 'no'
    assert added.root_forbidden == {'COMPUTE_STATUS_DISABLED'}


def test_it_is_noted_how_long_each_took():
    def silent(request, facts):
        return Requirements(notes=('nothing',))

    ticks = iter([1.0, 1.0, 3.52, 4.0]).__next__
    added = prefilters.run([silent, compute_status_filter], spec(), Facts(), ticks)
    assert added.notes[-1] == "Request filter 'compute_status_filter' took 2.5 seconds"
    assert added.notes[0] == 'nothing'


def test_zones_can_be_left_to_a_filter():
    on = prefilters.from_conf(conf(query_placement_for_availability_zone=False))
    added = prefilters.run(on, spec(availability_zone='az2'), ZONES)
    assert added.member_of == ()
