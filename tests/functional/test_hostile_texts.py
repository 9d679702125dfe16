# SPDX-License-Identifier: Apache-2.0
"""Hostile texts cost no entry more than ten times what an ordinary one does, and end
in an answer or in an error of ours."""

import json
import shlex
import time
import tracemalloc
from urllib import parse

import oslo_messaging
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.console import app
from novasched.console import cloud as console
from novasched.inspection.questions import why_not
from novasched.inspection.session import catalogue, session
from novasched.inspection.session.orders import CapacityOrder, HostsOrder, PlanOrder
from novasched.inspection.session.what_if import WhatIf
from novasched.objects.context import RequestContext
from novasched.rpc.serializer import encode
from novasched.rpc.server import SchedulerEndpoint
from novasched.runtime.deadline import TookTooLong
from tests.functional.commands import sources
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables import hostile

TIMES = 10
"""What a hostile text may cost, in ordinary ones."""
LEAST_S, LEAST = 0.1, 4 << 20
"""What an ordinary one counts as at least: some are answered from what is kept."""
ANSWERED = (200, 400, 404, 503)
FILTERS = [
    *('AvailabilityZoneFilter', 'ComputeFilter', 'ComputeCapabilitiesFilter'),
    *('ImagePropertiesFilter', 'NUMATopologyFilter', 'PciPassthroughFilter'),
    *('JsonFilter', 'SimpleCIDRAffinityFilter', 'SameHostFilter', 'IoOpsFilter'),
    *('AggregateInstanceExtraSpecsFilter', 'NumInstancesFilter'),
    *('DifferentHostFilter', 'ServerGroupAntiAffinityFilter'),
]
ALIAS = json.dumps({'name': 'gpu', 'vendor_id': '10de', 'product_id': '1'})
POOLS = [{'vendor_id': '10de', 'product_id': '1', 'numa_node': 0, 'count': 2}]


@pytest.fixture
def made(cloud):
    node = factories.numa_topology(
        factories.numa_cell(0, range(4)), factories.numa_cell(1, range(4, 8))
    )
    devices = json.dumps(POOLS)
    hosts = [
        Host('h1', zone='az1', numa_topology=node, pci_stats=devices),
        Host('h2', zone='az1', numa_topology=node),
        Host('h3', cell='cell2', memory_mb=4096),
    ]
    return cloud(
        hosts, filter_scheduler={'enabled_filters': FILTERS}, pci={'alias': [ALIAS]}
    )


class Spent:
    """Measures what is spent within, by the processor and of memory."""

    def __enter__(self):
        tracemalloc.reset_peak()
        self._held = tracemalloc.get_traced_memory()[0]
        self._began = time.process_time()
        return self

    def __exit__(self, *problem):
        self.seconds = time.process_time() - self._began
        self.bytes = tracemalloc.get_traced_memory()[1] - self._held


@pytest.fixture
def bounded():
    """Return what runs one question, of which an ordinary one was asked before."""
    tracemalloc.start()

    def bound(ask, *ordinary, warm=()):
        for each in (ordinary, *warm):
            ask(*each)
        with Spent() as usual:
            ask(*ordinary)

        def run(*asked):
            with Spent() as spent:
                ask(*asked)
            most_s, most = max(usual.seconds, LEAST_S), max(usual.bytes, LEAST)
            assert spent.seconds <= TIMES * most_s, (spent.seconds, asked)
            assert spent.bytes <= TIMES * most, (spent.bytes, asked)

        return run

    yield bound
    tracemalloc.stop()


@pytest.fixture
def client(made, caplog, request):
    """Ask for a page; the work for it ends after 3 s, or what a test says."""
    work_s = getattr(request, 'param', 3.0)
    with console.opened(made.conf, sources(made), work_s=work_s) as reader:
        client = app.create(reader).test_client()

        def ask(path, query):
            answer = client.get(path, query_string=query)
            assert answer.status_code in ANSWERED, (answer.text, path, query)
            return answer

        yield ask


ORDER = {
    'flavor': 'vcpus=2,ram=512,disk=1,hw:numa_nodes=2,resources1:CUSTOM_X=1',
    'image': 'hw_cpu_policy=dedicated',
    'count': '4',
    'what_if': 'ratio VCPU=2\nadd 2 like h1',
}


def test_plans(client, bounded):
    ask = bounded(client, '/plan', ORDER, warm=[('/plan', {'flavor': 'x'})])

    @given(st.sampled_from(['/plan', '/api/v1/plan']), hostile.orders)
    @hostile.examples(3)
    def hold(path, order):
        ask(path, order)

    hold()


@pytest.mark.parametrize('client', [60.0], indirect=True)
def test_the_page_of_a_plan_shows_hostile_texts(client):
    text = ''.join(['<script>', '{{ 7 }}', *hostile.WORDS])
    order = {
        'flavor': f'vcpus=1,ram=64,disk=1,x:y={text}',
        'image': f'x={text}',
        'zone': 'az1',
        'hints': f'x={text}',
        'what_if': f'property az1 x={shlex.quote(text)}',
    }
    answer = client('/plan', order)
    assert answer.status_code == 200
    assert answer.text.count('&lt;script&gt;{{ 7 }}') >= 4
    assert '<script>' not in answer.text


def test_capacity(client, bounded):
    usual = {'flavors': ORDER['flavor'], 'what_if': ORDER['what_if']}
    wrong = ({'flavors': 'x'},)
    ask = bounded(lambda order: client('/capacity', order), usual, warm=[wrong])

    @given(
        hostile.flavors | hostile.small,
        st.sampled_from(['', 'zone', 'host', 'x']),
        st.lists(hostile.changes, max_size=3),
    )
    @hostile.examples(4)
    def hold(flavors, by, changes):
        ask({'flavors': flavors, 'by': by, 'what_if': '\n'.join(changes)})

    hold()


PAGES = ['/', '/hosts', '/hosts/h1', '/decisions', '/decisions/count', '/capacity/heat']
NAMES = [
    *('name', 'page', 'limit', 'flavor', 'zone', 'cell', 'state', 'since', 'until'),
    *('before', 'by', 'server', 'index', 'code'),
]


def test_pages(client, bounded):
    usual = {'flavor': ORDER['flavor']}
    warm = [(path, {}) for path in (*PAGES, '/nothing', '/hosts/nothing')]
    ask = bounded(client, '/hosts', usual, warm=warm)

    @given(
        st.sampled_from(PAGES)
        | hostile.texts.map(lambda text: f'/hosts/{parse.quote(text)}'),
        st.dictionaries(
            st.sampled_from(NAMES), hostile.texts | hostile.flavors, max_size=3
        ),
    )
    @hostile.examples(8)
    def hold(path, query):
        ask(path, query)

    hold()


def test_why_not(made, bounded):
    def asked(flavor, image, changes):
        try:
            what_if = WhatIf.of(changes)
            size = catalogue.flavor_of(flavor)
            picture = catalogue.image_of(f'x=,{image}') if image else {}
            reading = session.opened(made.conf, what_if=what_if, sources=sources(made))
            with reading as opened:
                request = opened.maker.boot(size, picture)
                why_not.why_not(opened.run, 'h1', request, opened.placement)
        except errors.NovaschedError:
            pass

    usual = ORDER['flavor'], ORDER['image'], ['ratio VCPU=2']
    ask = bounded(asked, *usual)

    @given(
        hostile.flavors | hostile.small,
        hostile.properties.map(hostile.said),
        st.lists(hostile.changes.filter(lambda each: 'option' not in each), max_size=2),
    )
    @hostile.examples(2)
    def hold(flavor, image, changes):
        ask(flavor, image, changes)

    hold()


def leaves(value, path=()):
    """Yield the ways to everything inside a value."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in items:
            yield from leaves(each, (*path, name))


def changed(value, path, leaf):
    """Return a value with another leaf at the end of a way."""
    if not path:
        return leaf
    copied = value.copy()
    copied[path[0]] = changed(value[path[0]], path[1:], leaf)
    return copied


def nested(depth):
    made = value = []
    for _ in range(depth):
        value.append([])
        value = value[0]
    return made


LEAVES = st.one_of(
    hostile.texts,
    st.just('\ud800'),
    st.sampled_from([0, -1, 2**31, 2**62, 2**64, 10**30, 1e308, float('inf'), None]),
    st.sampled_from([[], {}, nested(100), nested(700), [2**62], {'a': 'b'}, True]),
)


def test_requests(made, bounded):
    endpoint = SchedulerEndpoint(made.compose().manager, None)
    context = RequestContext(overwrite=False)

    def asked(spec, uuids):
        try:
            endpoint.select_destinations(
                context, spec_obj=spec, instance_uuids=uuids, return_objects=True
            )
        except oslo_messaging.ExpectedException as failed:
            problem = failed.exc_info[1].__cause__
            assert isinstance(problem, errors.RequestError)

    cells = [factories.guest_cell(0), factories.guest_cell(1, cpus=[1])]
    request = made.request(
        vcpus=2,
        extra_specs={'hw:numa_nodes': '2', 'hw:cpu_policy': 'mixed'},
        image={'img_hv_requested_version': '>=1.0'},
        scheduler_hints={'query': ['["=", "$vcpus", 1]'], 'cidr': ['/24']},
        numa_topology=factories.guest_topology(*cells),
        num_instances=4,
    )
    plain = json.loads(json.dumps(encode(request), default=list))
    ways = st.sampled_from(sorted(leaves(plain), key=repr))
    ask = bounded(asked, plain, None)

    @given(st.lists(st.tuples(ways, LEAVES), min_size=1, max_size=2), st.booleans())
    @hostile.examples(12)
    def hold(changes, is_named):
        spec = plain
        for way, leaf in changes:
            try:
                spec = changed(spec, way, leaf)
            except (KeyError, IndexError, TypeError, AttributeError):
                continue  # the change before took it away
        ask(spec, new_uuids(2) if is_named else None)

    hold()


SIZE = 'vcpus=1,ram=512,disk=1'
LARGE = 'vcpus=999,ram=512,disk=1'
CHANGED = ('add 2 like h1',)
QUESTIONS = {
    'plan': lambda reader: reader.plan(PlanOrder(flavor=LARGE)),
    'changed plan': lambda reader: reader.plan(PlanOrder(flavor=SIZE, what_if=CHANGED)),
    'capacity': lambda reader: reader.capacity(CapacityOrder((SIZE,))),
    'changed capacity': lambda reader: reader.capacity(
        CapacityOrder((SIZE,), what_if=CHANGED)
    ),
    'no room': lambda reader: reader.capacity(CapacityOrder((LARGE,))),
    'heat': lambda reader: reader.heat(SIZE),
    'hosts': lambda reader: reader.hosts(HostsOrder(flavor=SIZE)),
}


def test_question_over_its_time_limit_is_ended(made):
    ended = set()
    with console.opened(made.conf, sources(made), work_s=-1.0) as reader:
        for _ in range(2):  # the second time nothing is still at work
            for name, ask in QUESTIONS.items():
                try:
                    ask(reader)
                except TookTooLong:
                    ended.add(name)
            assert ended == QUESTIONS.keys()
            ended.clear()


def test_the_page_of_what_takes_too_long(made):
    with console.opened(made.conf, sources(made), work_s=-1.0) as reader:
        answer = app.create(reader).test_client().get('/plan', query_string=ORDER)
    assert answer.status_code == 503
    assert 'This takes too long' in answer.text
