# SPDX-License-Identifier: Apache-2.0
"""A request as the dict that plugins of old were given."""

import copy
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.objects import base
from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.context import RequestContext
from novasched.objects.filter_properties import KEYS, filter_properties_dict
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import (
    Destination,
    RequestSpec,
    SchedulerLimits,
    SchedulerRetries,
)
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers import BaseHostWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

OTHER = 'c0000000-0000-4000-8000-000000000002'
IMAGE = 'a0000000-0000-4000-8000-000000000001'
RETRY = SchedulerRetries(
    num_attempts=2,
    hosts=ComputeNodeList(objects=[ComputeNode(host='h1', hypervisor_hostname='n1')]),
)
GROUP = factories.group('affinity', members=['m1'], hosts=['h1', 'h2'])
PCI = InstancePCIRequests(requests=[])
DESTINATION = Destination(host='h1')
CONTEXT = RequestContext(user_id='u', overwrite=False)
GROUP_KEYS = {name for name in KEYS if name.startswith('group_')}


def request_of_everything():
    """Return a request in which every key has something to say."""
    request = factories.request(
        memory_mb=1024,
        extra_specs={'ssd': 'true'},
        image={'os_type': 'linux', 'hw_disk_bus': 'virtio'},
        ignore_hosts=['h7'],
        force_hosts=['h8'],
        force_nodes=['n8'],
        retry=RETRY,
        limits=SchedulerLimits(vcpu=4),
        instance_group=GROUP,
        pci_requests=PCI,
        requested_destination=DESTINATION,
        scheduler_hints={'group': ['g'], 'same_host': ['a', 'b'], 'query': []},
        num_instances=3,
    )
    request.image.id = IMAGE
    request._context = CONTEXT
    return request


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('context', CONTEXT),
        ('scheduler_hints', {'group': 'g', 'same_host': ['a', 'b'], 'query': []}),
        ('config_options', {}),
        ('project_id', 'project'),
        ('os_type', 'linux'),
        ('ignore_hosts', ['h7']),
        ('force_hosts', ['h8']),
        ('force_nodes', ['n8']),
        ('retry', {'num_attempts': 2, 'hosts': [['h1', 'n1']]}),
        ('limits', {'vcpu': 4}),
        ('group_updated', True),
        ('group_hosts', {'h1', 'h2'}),
        ('group_policies', {'affinity'}),
        ('group_members', {'m1'}),
        ('group_uuid', GROUP.uuid),
        ('pci_requests', PCI),
        ('requested_destination', DESTINATION),
    ],
)
def test_every_key_has_its_value(key, value):
    request = request_of_everything()
    assert request[key] == request.get(key) == value
    assert key in request
    assert type(request[key]) is type(value)


def test_the_rest_of_the_keys():
    request = request_of_everything()
    assert request['instance_type'] is request.flavor
    assert set(request) == set(KEYS) == request.keys()
    assert request.get('no_such_key') is None
    assert request.get('no_such_key', 3) == 3
    assert len(request) == len(list(request.values())) == len(KEYS)
    assert dict(request) == dict(request.items()) == request.copy()


def test_the_request_spec_in_it():
    request = request_of_everything()
    found = request['request_spec']
    assert found['instance_type'] is request.flavor
    assert found['num_instances'] == 3
    assert found['instance_uuids'] == [factories.INSTANCE]
    assert found['image']['properties'] == {'os_type': 'linux', 'hw_disk_bus': 'virtio'}
    assert found['instance_properties'] == {
        'uuid': factories.INSTANCE,
        'project_id': 'project',
        'user_id': 'user',
        'availability_zone': None,
        'root_gb': 1,
        'ephemeral_gb': 0,
        'memory_mb': 1024,
        'vcpus': 1,
        'numa_topology': None,
        'pci_requests': PCI,
        'image_ref': IMAGE,
        'os_type': 'linux',
    }


ALWAYS = {'request_spec', 'scheduler_hints', 'config_options', 'project_id', 'os_type'}


def test_a_request_that_says_nothing():
    request = RequestSpec()
    assert set(request) == ALWAYS
    assert request['scheduler_hints'] is request['project_id'] is request['os_type']
    assert request['project_id'] is None
    assert request['request_spec']['image'] == {}
    assert request['request_spec']['instance_uuids'] == []
    assert request['request_spec']['instance_properties']['project_id'] is None
    for key in set(KEYS) - ALWAYS:
        with pytest.raises(KeyError):
            request[key]


@cases(
    'fields',
    ('unset', {}),
    (
        'null',
        dict.fromkeys(
            (
                'image',
                'pci_requests',
                'project_id',
                *('ignore_hosts', 'force_hosts', 'force_nodes'),
                *('requested_destination', 'retry', 'limits', 'instance_group'),
            )
        ),
    ),
    ('empty', {'ignore_hosts': [], 'force_hosts': []}),
)
def test_keys_without_a_value_are_not_there(fields):
    assert set(RequestSpec(**fields)) == ALWAYS


@cases(
    'hints, value',
    ('empty', {}, {}),
    ('null', None, None),
    ('empty text', {'a': ['']}, {'a': ''}),
)
def test_hints(hints, value):
    assert RequestSpec(scheduler_hints=hints)['scheduler_hints'] == value


@cases(
    'key, fields, is_in',
    ('a field that is unset', 'retry', {}, False),
    ('a field that is null', 'retry', {'retry': None}, True),
    ('another one', 'limits', {'limits': None}, True),
    ('no key but a field', 'flavor', {'flavor': Flavor()}, True),
    ('a key without a value', 'instance_type', {}, False),
    ('a key', 'instance_type', {'flavor': Flavor()}, True),
    ('a key that is always there', 'config_options', {}, True),
    ('a property', 'vcpus', {'flavor': Flavor()}, False),
    ('neither', 'mine', {}, False),
    ('no text', 7, {}, False),
    ('nothing to be looked up', [], {}, False),
)
def test_in_means_what_it_means_in_nova(key, fields, is_in):
    assert (key in RequestSpec(**fields)) is is_in


def test_written_key_is_in_the_dict_unless_it_is_a_field():
    request = RequestSpec()
    request['mine'] = request['retry'] = 1
    assert 'mine' in request
    assert 'retry' not in request
    assert 'retry' in request.keys()  # noqa: SIM118
    assert request['retry'] == 1


def test_writing_changes_no_attribute_and_nothing_that_is_sent():
    request = request_of_everything()
    before = request.obj_to_primitive()
    for key in KEYS:
        request[key] = 'written'
    request['flavor'] = 'written'
    request.update(mine=1, limits={})
    request.pop('retry')
    assert request.obj_to_primitive() == before
    assert request.obj_what_changed() == {'image'}
    assert request.flavor.memory_mb == 1024
    assert request.limits.vcpu == 4
    assert request.retry is RETRY
    assert repr(request) == repr(copy.deepcopy(request))
    assert bool(request)


def test_written_keys_follow_the_request():
    request = factories.request(instance_group=GROUP)
    request['mine'] = 1
    later = request.for_instance(OTHER).with_group_on('h9')
    assert later['mine'] == 1
    later['mine'] = 2
    assert request['mine'] == 2
    assert later.replaced(project_id='p').get('mine') == 2
    assert copy.copy(later)['mine'] == 2


def test_written_keys_reach_no_other_request_and_no_wire():
    request = factories.request()
    one, two = request.for_instance(OTHER), request.for_instance(OTHER)
    one['mine'] = 1
    assert two.get('mine') is request.get('mine') is None
    sent = base.parse(one.obj_to_primitive())
    assert sent.get('mine') is copy.deepcopy(one).get('mine') is None
    assert one.obj_clone().get('mine') is None


def test_the_keys_follow_the_fields():
    request = factories.request(instance_group=GROUP)
    assert request['group_hosts'] == {'h1', 'h2'}
    assert request['request_spec']['instance_uuids'] == [factories.INSTANCE]
    later = request.for_instance(OTHER).with_group_on('h9')
    assert later['group_hosts'] == {'h1', 'h2', 'h9'}
    assert later['request_spec']['instance_properties']['uuid'] == OTHER
    assert request['group_hosts'] == {'h1', 'h2'}
    request.instance_group = None
    assert 'group_hosts' not in request


def test_change_within_a_value_outlives_copies_and_spares_the_fields():
    request = factories.request(
        scheduler_hints={'a': ['1'], 'many': ['x', 'y']},
        ignore_hosts=['h1'],
        instance_group=GROUP,
    )
    request['scheduler_hints']['b'] = 2
    request['group_hosts'].add('h3')
    request['scheduler_hints']['many'].append('z')
    request['ignore_hosts'].append('h2')
    request['config_options']['c'] = 3
    assert request['group_hosts'] == {'h1', 'h2', 'h3'}
    later = request.for_instance(OTHER).with_group_on('h9')
    assert later['scheduler_hints'] == {'a': '1', 'many': ['x', 'y', 'z'], 'b': 2}
    assert later['ignore_hosts'] == ['h1', 'h2']
    assert later['config_options'] == {'c': 3}
    assert later['group_hosts'] == {'h1', 'h2', 'h9'}
    assert request.scheduler_hints == {'a': ['1'], 'many': ['x', 'y']}
    assert request.ignore_hosts == ['h1']
    assert GROUP.hosts == ['h1', 'h2']


def test_request_carries_no_dict_until_it_is_read_as_one():
    request = factories.request(instance_group=GROUP)
    before = set(vars(request))
    hosts = factories.hosts(3)
    decide(Profile([], []), hosts, request, random.Random(1))
    assert 'image' in request
    assert set(vars(request.with_group_on('h'))) == set(vars(request)) == before


def test_many_threads_share_one_request():
    request = factories.request()
    barrier = threading.Barrier(8)
    seen = []

    def write(number):
        barrier.wait(10)
        request[f'key{number}'] = number
        seen.append(request['instance_type'])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [request[f'key{n}'] for n in range(8)] == list(range(8))
    assert seen == [request.flavor] * 8


steps = st.lists(
    st.tuples(
        st.sampled_from(['set', 'del', 'pop', 'setdefault', 'copy']),
        st.sampled_from([*KEYS, 'mine', 'yours']),
        st.integers(),
    ),
    max_size=10,
)


@given(steps)
def test_it_is_written_like_a_dict(steps):
    request = request_of_everything()
    before, plain = request.obj_to_primitive(), dict(request)
    for what, key, value in steps:
        if what == 'set':
            request[key] = plain[key] = value
        elif what == 'setdefault':
            assert request.setdefault(key, value) == plain.setdefault(key, value)
        elif what == 'pop':
            assert request.pop(key, value) == plain.pop(key, value)
        elif what == 'copy':
            request = request.replaced()
        elif key in plain:
            del request[key], plain[key]
        assert dict(request) == plain
        assert set(request.keys()) == plain.keys()
        assert len(request) == len(plain)
    assert request.obj_to_primitive() == before


def test_sent_dict_has_only_keys_of_old_releases():
    assert set(filter_properties_dict(request_of_everything())) == GROUP_KEYS | {
        *('ignore_hosts', 'force_hosts', 'force_nodes', 'requested_destination'),
        *('retry', 'limits', 'scheduler_hints'),
    }


class JunoRamFilter(BaseHostFilter):
    """As filters of the field were written for Juno."""

    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get('instance_type')
        return host_state.free_ram_mb > instance_type['memory_mb']


@cases(
    'free_ram_mb, passes',
    ('more than was asked for', 1025, True),
    ('just what was asked for', 1024, False),
)
def test_a_filter_of_juno(free_ram_mb, passes):
    hosts = factories.hosts(free_ram_mb=[free_ram_mb])
    request = factories.request(memory_mb=1024)
    assert bool(len(JunoRamFilter().apply(hosts, request))) is passes


class Remembering(BaseHostFilter):
    """Puts down what it has seen, for whoever comes later."""

    def host_passes(self, host_state, filter_properties):
        filter_properties.setdefault('seen', []).append(host_state.host)
        return True


class OldWeigher(BaseHostWeigher):
    """Prefers hosts that were seen late, as a weigher of Juno."""

    def _weigh_object(self, host_state, weight_properties):
        cpus = weight_properties['request_spec']['instance_properties']['vcpus']
        return cpus * weight_properties['seen'].index(host_state.host)


def test_filters_weighers_and_instances_share_the_dict_of_a_request():
    profile = Profile([Remembering(), Remembering()], [OldWeigher()])
    hosts = factories.hosts(2)
    for _ in range(2):
        request = factories.request(vcpus=2).for_instance(OTHER)
        decision = decide(profile, hosts, request, random.Random(1))
        assert decision.ranked.host.tolist() == ['h2', 'h1']
        assert decision.weighed.weighings[0].raw.tolist() == [0, 2]
        following = request.for_instance(factories.INSTANCE)
        decide(profile, decision.ranked, following, random.Random(1), index=1)
        assert following['seen'] == ['h1', 'h2'] * 2 + ['h2', 'h1'] * 2


def test_a_flavor_as_a_dict():
    flavor = Flavor(name='m1', vcpus=2)
    assert dict(flavor) == {'name': 'm1', 'vcpus': 2}
    assert list(flavor) == list(flavor.keys()) == ['name', 'vcpus']
    assert list(flavor.values()) == ['m1', 2]
    assert list(flavor.items()) == [('name', 'm1'), ('vcpus', 2)]
    assert flavor.get('extra_specs', {}) == {}
    assert flavor['rxtx_factor'] == 1.0
    assert 'extra_specs' not in flavor
    with pytest.raises(errors.UnsetField):
        flavor['extra_specs']
    with pytest.raises(AttributeError):
        flavor['no_such_field']


def test_attributes_stay_what_they_are():
    request = RequestSpec(image=ImageMeta())
    assert not hasattr(request, 'instance_type')
    with pytest.raises(errors.UnsetField):
        _ = request.retry
    request['retry'] = 1
    with pytest.raises(errors.UnsetField):
        _ = request.retry
