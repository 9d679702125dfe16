# SPDX-License-Identifier: Apache-2.0
"""What is left behind of servers that are asked for."""

import contextlib
import dataclasses

import oslo_messaging
import pytest

from novasched import errors
from novasched.db import tables
from novasched_lab.api import boot
from tests.support.tables.cases import cases


def test_each_server_has_a_build_request_a_mapping_and_a_spec(made):
    uuids = made.boot('web', count=2, hints={'group': ['x']}, zone='az1')
    assert [each.display_name for _, each in made.api.with_builds()] == [
        'web-1',
        'web-2',
    ]
    assert [each.instance_uuid for each, _ in made.api.with_builds()] == uuids
    kept = made.api.request_spec(uuids[1])
    assert (kept.instance_uuid, kept.num_instances) == (uuids[1], 2)
    assert (kept.availability_zone, kept.force_hosts) == ('az1', None)
    assert (kept.project_id, kept.user_id) == ('project', 'user')
    ((_, builds, requests, image),) = made.conductor.asked
    assert [each.instance_uuid for each in builds] == uuids
    assert [each.instance_uuid for each in requests] == uuids
    assert image['name'] == 'cirros'


def test_a_zone_may_force_a_host(made):
    (uuid,) = made.boot(zone='az1:h1:n1')
    kept = made.api.request_spec(uuid)
    assert (kept.force_hosts, kept.force_nodes) == (['h1'], ['n1'])


def test_a_host_is_a_destination_that_is_not_kept(made):
    (uuid,) = made.boot(host='h1')
    ((_, _, (request,), _),) = made.conductor.asked
    assert request.requested_destination.host == 'h1'
    assert 'requested_destination' not in made.api.request_spec(uuid)


@cases(
    'zone, host, problem',
    ('anywhere', None, None, None),
    ('a zone of an aggregate', 'az1', None, None),
    ('a zone of an aggregate of two', 'az2', None, None),
    ('the default zone', 'internal', None, None),
    ('a host in whatever zone', ':h1', None, None),
    ('a zone and a host', 'az1:h1:n1', 'h1', None),
    (
        'an unknown zone',
        'mars',
        None,
        r'there is no zone mars\. Name one of az1, az2, internal\.$',
    ),
    ('an unknown zone and a host', 'mars:h1', None, 'no zone mars'),
    ('not the default zone', 'nova', None, 'no zone nova'),
    ('an unknown host', None, 'h9', 'h9 is mapped to no cell'),
)
def test_places_that_there_are_not_are_refused(made, zone, host, problem):
    (id_,) = made.neighbours.databases.add(tables.aggregates, {'name': 'a'})
    made.neighbours.databases.add(
        tables.aggregate_metadata,
        {'aggregate_id': id_, 'key': 'availability_zone', 'value': 'az1, az2'},
    )
    api = dataclasses.replace(made.api_context, default_zone='internal')
    expected = pytest.raises(errors.OptionError, match=problem) if problem else None
    with expected or contextlib.nullcontext():
        boot.check_places(api, zone, host)


def group(made, name='web', policy='anti-affinity', limit=None):
    return boot.group_for(made.api_context, made.context, name, policy, limit)


def test_servers_join_their_group(made):
    uuids = made.boot(count=2, group=group(made, limit=2))
    found = made.api.server_group_of(uuids[0])
    assert (found.name, found.policy) == ('web', 'anti-affinity')
    assert found.rules == {'max_server_per_host': '2'}
    assert list(found.members) == uuids
    ((_, _, requests, _),) = made.conductor.asked
    assert requests[1].instance_group.members == uuids
    assert requests[1].scheduler_hints == {'group': [found.uuid]}
    more = made.boot(group=group(made, policy=None))
    assert list(made.api_context.groups.find(found.uuid, None).members) == [
        *uuids,
        *more,
    ]


@cases(
    'name, policy, problem',
    ('unknown', 'db', None, 'Give --policy, one of affinity'),
    ('another policy', 'web', 'affinity', 'is anti-affinity'),
)
def test_a_group_that_cannot_be_joined(made, name, policy, problem):
    group(made)
    with pytest.raises(errors.OptionError, match=problem):
        group(made, name, policy)


@pytest.mark.parametrize('by', ['uuid', 'name'])
def test_a_group_is_found_by_name_or_uuid(made, by):
    known = group(made)
    assert group(made, getattr(known, by), None) == known


def test_where_the_conductor_is_away_nothing_is_left_behind(made):
    known = group(made)
    made.conductor.raises = oslo_messaging.MessageDeliveryFailure('no queue')
    with pytest.raises(boot.NoConductorAnswers, match='Start novasched-conductor'):
        made.boot(count=2, group=known)
    assert made.api.with_builds() == []
    assert made.api_context.groups.find(known.uuid, None).members == ()
