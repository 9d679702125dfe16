# SPDX-License-Identifier: Apache-2.0
"""The request context on the wire, and the copies that are made of it."""

import copy
import datetime
import json
import pathlib

import pytest
from oslo_context import context as oslo_context

from novasched.objects.context import RequestContext, admin
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
WIRE = json.loads((SAMPLES / 'context.json').read_text())


@pytest.fixture
def context():
    return RequestContext.from_dict(WIRE)


def test_the_wire_form_survives_reading_and_writing(context):
    assert context.to_dict() == WIRE


def test_the_wire_form_of_nothing_has_all_keys():
    values = RequestContext.from_dict({}).to_dict()
    assert values.keys() == WIRE.keys()
    assert values | {'request_id': '', 'timestamp': ''} == dict.fromkeys(WIRE) | {
        'is_admin': False,
        'is_admin_project': True,
        'read_only': False,
        'show_deleted': False,
        'read_deleted': 'no',
        'roles': [],
        'service_catalog': [],
        'user_identity': '- - - - -',
        'request_id': '',
        'timestamp': '',
    }


def test_nulls_are_read_as_if_missing():
    values = RequestContext.from_dict(dict.fromkeys(WIRE)).to_dict()
    empty = RequestContext.from_dict({}).to_dict()
    for made in (values, empty):
        assert made.pop('request_id').startswith('req-')
        del made['timestamp']
    assert values == empty


def test_unknown_keys_are_ignored():
    extra = {'msg_id': '1', 'reply_q': 'reply_1', 'client_timeout': 60, 'tenant': 'x'}
    assert RequestContext.from_dict(WIRE | extra).to_dict() == WIRE


@cases(
    'values, user, project',
    ('the short keys alone', {'user': 'u', 'project': 'p'}, 'u', 'p'),
    ('the long keys alone', {'user_id': 'u', 'project_id': 'p'}, 'u', 'p'),
    (
        'the long keys win',
        {'user': 'a', 'user_id': 'u', 'project': 'b', 'project_id': 'p'},
        'u',
        'p',
    ),
)
def test_user_and_project_have_two_keys(values, user, project):
    context = RequestContext.from_dict(values)
    assert (context.user_id, context.project_id) == (user, project)


@cases(
    'values, is_admin',
    ('said so', {'is_admin': True}, True),
    ('denied', {'is_admin': False, 'roles': ['admin']}, False),
    ('null, the role', {'is_admin': None, 'roles': ['Admin']}, True),
    ('null, no role', {'is_admin': None, 'roles': ['member']}, False),
    ('missing', {'roles': ['admin']}, False),
)
def test_is_admin(values, is_admin):
    assert RequestContext.from_dict(values).to_dict()['is_admin'] is is_admin


@pytest.mark.parametrize('read_deleted', ['no', 'yes', 'only'])
def test_read_deleted_has_three_values(read_deleted):
    assert RequestContext(read_deleted=read_deleted).read_deleted == read_deleted


def test_another_read_deleted_is_an_error(context):
    with pytest.raises(ValueError, match='read_deleted'):
        RequestContext.from_dict(WIRE | {'read_deleted': 'maybe'})
    with pytest.raises(ValueError, match='read_deleted'):
        context.read_deleted = 'maybe'


@cases(
    'stamp',
    ('no zone is UTC', '2026-11-21T03:50:00.123456'),
    ('UTC', '2026-11-21T03:50:00.123456Z'),
    ('another zone', '2026-11-21T04:50:00.123456+01:00'),
    ('a time', datetime.datetime(2026, 11, 21, 3, 50, 0, 123456, datetime.UTC)),
)
def test_timestamps_are_utc_without_a_zone(stamp):
    context = RequestContext(timestamp=stamp)
    assert context.to_dict()['timestamp'] == '2026-11-21T03:50:00.123456'
    assert context.timestamp.tzinfo is None


def test_a_timestamp_that_is_none_is_an_error():
    with pytest.raises(ValueError):
        RequestContext(timestamp='yesterday')


def test_the_catalog_keeps_what_a_service_calls():
    catalog = [{'type': 'compute'}, {'type': 'network'}, {'name': 'no type'}]
    context = RequestContext(service_catalog=catalog)
    assert context.service_catalog == [{'type': 'network'}]


def test_other_services_get_the_global_request_id(context):
    assert context.global_id == WIRE['global_request_id']
    assert RequestContext(request_id='req-1').global_id == 'req-1'


def test_elevated_has_the_role_and_the_same_user(context):
    elevated = context.elevated()
    assert elevated.to_dict() == WIRE | {
        'is_admin': True,
        'roles': ['member', 'reader', 'admin'],
    }
    assert context.to_dict() == WIRE


def test_elevated_does_not_add_the_role_twice():
    assert RequestContext(roles=['ADMIN']).elevated().roles == ['ADMIN']


@cases(
    'copied',
    ('copy', copy.copy),
    ('deepcopy', copy.deepcopy),
    ('elevated', RequestContext.elevated),
    ('redacted', RequestContext.redacted_copy),
    ('the wire', lambda it: RequestContext.from_dict(it.to_dict())),
)
def test_copies_share_no_lists(context, copied):
    twin = copied(context)
    twin.roles.append('more')
    twin.service_catalog.append({'type': 'image'})
    assert context.to_dict() == WIRE


def test_a_given_role_list_is_not_kept():
    roles = ['member']
    RequestContext(roles=roles).roles.append('more')
    assert roles == ['member']


def test_redacted_copy_says_who_but_gives_nothing_away(context):
    redacted = context.redacted_copy().to_dict()
    assert redacted.pop('timestamp') > WIRE['timestamp'][:4]
    assert redacted == {k: v for k, v in WIRE.items() if k != 'timestamp'} | {
        'auth_token': None,
        'remote_address': None,
        'service_catalog': [],
    }


def test_redacted_copy_forgets_quota_class_and_read_deleted():
    context = RequestContext(quota_class='big', read_deleted='yes', is_admin=True)
    redacted = context.redacted_copy()
    assert (redacted.quota_class, redacted.read_deleted) == (None, 'no')
    assert redacted.is_admin is True


def test_admin_has_the_rights_and_no_user():
    values = admin().to_dict()
    assert (values['is_admin'], values['roles'], values['user']) == (True, [], None)


def test_log_lines_show_the_context_that_was_read_last(context):
    admin()
    context.redacted_copy()
    context.elevated()
    assert oslo_context.get_current() is context
