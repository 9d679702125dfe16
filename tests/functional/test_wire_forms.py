# SPDX-License-Identifier: Apache-2.0
"""Requests in all the forms that callers send, through the endpoint to the claim."""

import json
import pathlib

import pytest

from novasched.objects.context import RequestContext
from novasched.objects.filter_properties import (
    filter_properties_dict,
    request_spec_dict,
)
from novasched.objects.notifications import request_spec
from novasched.objects.selection import Selection
from novasched.rpc.serializer import encode
from novasched.rpc.server import SchedulerEndpoint
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[1] / 'samples' / 'rpc'
HOSTS = [
    Host('h1', memory_mb=9000),
    Host('h2', memory_mb=8900),
    Host('h3', memory_mb=8800),
]
REBUILD = {'_nova_check_type': ['rebuild']}


@pytest.fixture
def made(cloud):
    return cloud(HOSTS)


@pytest.fixture
def call(made):
    """Call the endpoint as the dispatcher does: `call(**arguments)`."""
    endpoint = SchedulerEndpoint(made.compose().manager, None)

    def run(**arguments):
        given = json.loads(json.dumps(encode(arguments), default=list))
        return endpoint.select_destinations(RequestContext(overwrite=False), **given)

    return run


def dicts_of(spec):
    """The arguments of a caller that knows 4.0 alone."""
    return {
        'request_spec': request_spec_dict(spec),
        'filter_properties': filter_properties_dict(spec),
    }


@cases(
    'objects, alternates, hosts',
    ('dicts', False, False, None),
    ('dicts have no alternates', False, True, None),
    ('objects', True, False, ['h1']),
    ('objects and alternates', True, True, ['h1', 'h2', 'h3']),
)
@pytest.mark.parametrize('named', [True, False], ids=['named', 'not named'])
def test_answer_has_the_form_that_the_request_asks_for(
    made, call, objects, alternates, hosts, named
):
    uuids = new_uuids()
    found = call(
        spec_obj=made.request(),
        instance_uuids=uuids if named else None,
        return_objects=objects,
        return_alternates=alternates,
    )
    if hosts is None:
        assert found == [{'host': 'h1', 'nodename': 'h1', 'limits': {}}]
    else:
        (each,) = found
        assert all(isinstance(one, Selection) for one in each)
        assert [one.service_host for one in each] == hosts
        offered = [json.loads(one.allocation_request) for one in each]
        versions = {one.allocation_request_version for one in each}
        assert versions == ({'1.36'} if named else {None})
        assert all(offered) if named else offered == [None] * len(hosts)
    assert made.held() == ({uuids[0]: {'h1'}} if named else {})


def test_a_group_in_dicts_is_heeded(made, call):
    group = factories.group('affinity', members=new_uuids(), hosts=['h3'])
    found = call(**dicts_of(made.request(instance_group=group)))
    assert [one['host'] for one in found] == ['h3']


def test_dicts_that_leave_out_what_prefilters_read(cloud):
    options = {
        'query_placement_for_image_type_support': True,
        'image_metadata_prefilter': True,
    }
    made = cloud(HOSTS, scheduler=options)
    endpoint = SchedulerEndpoint(made.compose().manager, None)
    sampled = json.loads((SAMPLES / '09b-legacy-4.0-dicts.request.json').read_text())
    arguments = sampled['message']['args']
    arguments['request_spec']['image'] = None
    flavor = arguments['request_spec']['instance_type']
    flavor['nova_object.data'].update(vcpus=1, memory_mb=512, root_gb=1, swap=0)
    flavor['nova_object.data']['extra_specs'] = {}
    arguments['request_spec']['instance_properties'].update(
        numa_topology=None, availability_zone=None
    )
    arguments['filter_properties'] = None
    found = endpoint.select_destinations(RequestContext(overwrite=False), **arguments)
    assert [one['host'] for one in found] == ['h1']


@cases(
    'uuids, num_instances, count',
    ('the uuids count, whatever the spec says', 3, 1, 3),
    ('so they do for a spec that is stale', 1, 3, 1),
    ('the spec counts where there are none', None, 3, 3),
)
def test_how_many_instances(made, call, uuids, num_instances, count):
    found = call(
        spec_obj=made.request(num_instances=num_instances),
        instance_uuids=None if uuids is None else new_uuids(uuids),
        return_objects=True,
    )
    assert len(found) == count


def test_a_notification_names_the_aggregate_of_the_zone(cloud):
    made = cloud([Host('h1', zone='az1'), Host('h2', zone='az2')])
    scheduler = made.compose()
    assert made.ask(scheduler, new_uuids(), availability_zone='az2') == [['h2']]
    for phase, spec in made.notifications:
        told = request_spec(spec)['nova_object.data']['requested_destination']
        assert told['nova_object.data'] == {'aggregates': [named_uuid('az2')]}, phase
    assert len(made.notifications) == 2


class TestRebuilds:
    @pytest.mark.parametrize('named', [True, False], ids=['named', 'not named'])
    def test_nothing_is_asked_and_nothing_is_claimed(self, made, call, named):
        before = made.faults.seen.total()
        ((selection,),) = call(
            spec_obj=made.request(scheduler_hints=REBUILD, force_hosts=['h2']),
            instance_uuids=new_uuids() if named else None,
            return_objects=True,
        )
        assert made.faults.seen.total() == before
        assert selection.service_host == 'h2'
        assert selection.allocation_request == 'null'
        assert selection.allocation_request_version is None
        assert [phase for phase, _ in made.notifications] == ['start', 'end']
