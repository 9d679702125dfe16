# SPDX-License-Identifier: Apache-2.0
"""Of a request only what is on the list gets into records, errors and the log.

Each field of captured requests is filled with a mark, as far as it takes one; then the
requests are asked of all filters, which say why in words of their own.
"""

import copy
import json
import logging
import pathlib
import re

import pytest

from novasched import errors
from novasched.decisions.fault import Level
from novasched.decisions.record import encode
from novasched.objects.context import RequestContext
from novasched.resources import prefilters
from novasched.rpc.serializer import decode
from novasched.runtime.typed_json import to_json
from tests.properties.installed import FILTERS, WEIGHERS
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakePlacement
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples' / 'rpc'
NAMES = [
    '01-simple-boot',
    '01c-az-and-hint',
    '02-multi-create-anti-affinity',
    '03-numa-pinned-hugepages',
    '04-pci-alias',
    '05-granular-resources-traits',
    '06-requested-destination',
    '07-resize-retry-ignore-hosts',
    '08-rebuild-same-host',
]
KEPT = re.compile(
    r"""
    flavor\.(name|extra_specs\..*)
    | image\.(id|properties\.(hw_|os_|img_|trait).*)
    | availability_zone | project_id | user_id | instance_uuid
    | instance_group\.(uuid|policy|policies\..*)
    | (force_hosts|force_nodes|ignore_hosts)\..*
    | requested_destination\.(host|node)
    | scheduler_hints\.
      (group|same_host|different_host|query|build_near_host_ip|cidr|_nova_check_type)
      \..*
    # What is asked of placement is in the query, and the PCI aliases of the operator
    # in the reasons: both are kept.
    | requested_resources\.\d+\.
      (resources|required_traits|forbidden_traits|aggregates|in_tree|requester_id)\b.*
    | image\.disk_format | request_level_params\..*
    | requested_destination\.(aggregates|forbidden_aggregates|cell\.uuid)\b.*
    | pci_requests\.requests\.\d+\.(request_id|alias_name|spec\..*)
    """,
    re.VERBOSE,
)
KEPT_OF_CONTEXT = ('request_id', 'global_request_id', 'project_id', 'user_id')
IN_WORDS = ('MARK', 'a11ce')
STRUCTURE = ('nova_object.name', 'nova_object.namespace', 'nova_object.version')


def leaves(value, keys=()):
    """Yield the keys of what is no dict or list, and what it is."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in (*STRUCTURE, 'nova_object.changes'):
                yield from leaves(each, (*keys, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from leaves(each, (*keys, place))
    else:
        yield keys, value


def with_value(whole, keys, value):
    """Return a copy with another value at one place."""
    changed = copy.deepcopy(whole)
    holder = changed
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    return changed


def path_of(keys):
    """The names of the fields on the way to a place."""
    named = (str(key) for key in keys if key not in ('nova_object.data', 'objects'))
    return '.'.join(named)


def marked(spec, context):
    """Fill a captured request with marks; return it, and how many it has."""
    count = 0
    for number, (keys, value) in enumerate(list(leaves(spec))):
        if KEPT.fullmatch(path_of(keys)) or isinstance(value, bool | int | float):
            continue
        for mark in (f'MARK{number}', f'a11ce{number:03}-0000-4000-8000-00000000000a'):
            changed = with_value(spec, keys, mark)
            try:
                decode(changed, context).obj_to_primitive()
            except Exception:  # noqa: BLE001 the field takes no such value
                continue
            spec, count = changed, count + 1
            break
    return spec, count


def message_of(name):
    return json.loads((SAMPLES / f'{name}.request.json').read_text())['message']


def context_of(message):
    """The context of a message, with a mark in each field that is not on the list."""
    prefix = '_context_'
    fields = {k.removeprefix(prefix): v for k, v in message.items() if prefix in k}
    for name, value in fields.items():
        if name not in (*KEPT_OF_CONTEXT, 'user', 'project') and (
            isinstance(value, str | None) and name not in ('timestamp', 'read_deleted')
        ):
            fields[name] = f'MARK-{name}'
    fields['roles'] = ['MARK-role']
    fields['service_catalog'] = [{'name': 'MARK-catalog'}]
    return RequestContext.from_dict(fields)


def hosts():
    """Two hosts that have nothing, and that most filters reject."""
    return factories.hosts(
        service_disabled=[True, False],
        service_up=[False, False],
        free_ram_mb=[0, 0],
        vcpus_used=[8, 8],
        num_instances=[99, 99],
        num_io_ops=[99, 99],
        supported_instances=[[], []],
        aggregates=[(factories.aggregate(1, ssd='no', filter_tenant_id='other'),)] * 2,
    )


@pytest.fixture(scope='module', params=NAMES)
def request_(request):
    """A captured request full of marks, its context, and the instances."""
    message = message_of(request.param)
    context = context_of(message)
    spec, count = marked(message['args']['spec_obj'], context)
    assert count > 10
    return decode(spec, context), context, message['args']['instance_uuids']


PREFILTERS = prefilters.from_conf(
    make_conf(
        scheduler=dict.fromkeys(
            (
                'limit_tenants_to_placement_aggregate',
                'query_placement_for_image_type_support',
                'image_metadata_prefilter',
                'enable_isolated_aggregate_filtering',
            ),
            True,
        )
    )
)


def assert_unmarked(text, what):
    found = re.search(r'.{0,40}(MARK|a11ce).{0,40}', str(text))
    assert found is None, f'{what}: {found[0]}'


@cases(
    'level',
    ('to users', Level.USER),
    ('to admins', Level.ADMIN),
    more=[('to nobody', Level.NONE)],
)
def test_unlisted_request_field_appears_nowhere(request_, level, caplog):
    spec, context, uuids = request_
    caplog.set_level(logging.DEBUG, 'novasched.decisions')
    results = set()
    for filters in ([], *([each] for each in FILTERS)):
        table = hosts()
        placement = FakePlacement(*table.uuid.tolist())
        recorded = Recorded(
            table,
            placement,
            filters=filters,
            weighers=WEIGHERS,
            prefilters=PREFILTERS,
            level=level,
        )
        recorded.context = context
        said = ''
        try:
            recorded.ask(uuids, request=spec)
        except errors.NovaschedError as problem:
            said = str(problem)
        record = recorded.record
        encode(record.body)
        results.add(record.head.result)
        assert_unmarked(record.head, 'head')
        for name, value in to_json(record.body).items():
            assert_unmarked(value, name)
        if record.head.result == 'unschedulable':
            assert_unmarked(said, 'error')
    for entry in caplog.records:
        if entry.name.startswith('novasched.decisions'):
            assert_unmarked(entry.getMessage(), 'log')
    assert 'unschedulable' in results


def test_the_list_lets_through_what_is_on_it():
    message = message_of('01c-az-and-hint')
    spec = message['args']['spec_obj']
    context = context_of(message)
    spec = with_value(spec, ('nova_object.data', 'availability_zone'), 'MARK-zone')
    recorded = Recorded(hosts())
    recorded.context = context
    recorded.ask(message['args']['instance_uuids'], request=decode(spec, context))
    assert 'MARK-zone' in recorded.record.head.zone
    assert recorded.record.body.request.zone == 'MARK-zone'
