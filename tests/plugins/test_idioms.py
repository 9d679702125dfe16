# SPDX-License-Identifier: Apache-2.0
"""Each idiom of public plugins decides as its words say, and the page lists it."""

import http.server
import importlib
import json
import sys
import threading

import pytest

from novasched import errors, testing
from novasched.testing import aggregate, group, hosts, request

STAMP = '2026-01-01T00:00:00.000000'


def load(name, nova_conf=''):
    """Load a class, with options of its own."""
    sys.modules.pop('tests.plugins.idioms', None)
    return testing.load(f'tests.plugins.idioms.{name}', nova_conf)


def metrics(value):
    one = {'name': 'cpu.idle.percent', 'value': value, 'timestamp': STAMP}
    return json.dumps([{**one, 'source': 's'}])


def passed(filter_, table, asked):
    rejected = testing.rejections(filter_, table, asked)
    return [name for name in table.host.tolist() if name not in rejected]


def test_metrics():
    boost = (aggregate(1, idle_weight_multiplier='3'),)
    table = hosts(
        metrics=[metrics(0.5), metrics(0.25), None], aggregates=[(), boost, ()]
    )
    found = testing.weigh(load('IdleCPUWeigher'), table, request())
    assert found.raw == {'h1': 0.5, 'h2': 0.25, 'h3': 0.0}
    assert found.ranked == ['h2', 'h1', 'h3']


def test_zones_of_group_members():
    zones = [(aggregate(n, availability_zone=f'az{n}'),) for n in (1, 2, 1)]
    asked = request(instance_group=group('anti-affinity', hosts=['h1']))
    found = passed(load('ZoneAntiAffinityFilter'), hosts(aggregates=zones), asked)
    assert found == ['h2']


def test_metadata_of_aggregates():
    table = hosts(aggregates=[(aggregate(1, tenants='a, b'),), ()])
    filter_ = load('TenantAggregateFilter')
    assert passed(filter_, table, request(project_id='b')) == ['h1', 'h2']
    assert passed(filter_, table, request(project_id='c')) == ['h2']


def test_hints():
    asked = request(scheduler_hints={'not_on': ['h1', 'h3']})
    assert passed(load('OtherHostHintFilter'), hosts(3), asked) == ['h2']
    rebuild = {'not_on': ['h1'], '_nova_check_type': ['rebuild']}
    asked = request(scheduler_hints=rebuild)
    assert passed(load('OtherHostHintFilter'), hosts(1), asked) == ['h1']


def test_extra_specs():
    table = hosts(aggregates=[(aggregate(1, disk_kind='nvme'),), ()])
    filter_ = load('LocalDiskKindFilter')
    assert passed(filter_, table, request(extra_specs={'disk:kind': 'nvme'})) == ['h1']
    assert passed(filter_, table, request()) == ['h1', 'h2']


def test_traits():
    table = hosts(allocation_candidates=[[{}, {}], [{}]])
    asked = request(extra_specs={'trait:CUSTOM_A': 'required'})
    assert testing.weigh(load('TraitWeigher'), table, asked).ranked == ['h2', 'h1']


def test_instances_by_host_and_options_of_its_own():
    table = hosts(instances=[{}, {'a': None}, {'a': None, 'b': None}])
    assert passed(load('FewOfProjectFilter'), table, request()) == ['h1', 'h2']
    filter_ = load('FewOfProjectFilter', '[idioms]\nmost_instances = 1\n')
    assert passed(filter_, table, request()) == ['h1']


class Inventory(http.server.BaseHTTPRequestHandler):
    """Says that h2 is in repair."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'h2')


@pytest.fixture
def inventory():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Inventory)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={'poll_interval': 0.01}
    )
    thread.start()
    yield f'[idioms]\ninventory = http://127.0.0.1:{server.server_port}/\n'
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_external_service(inventory):
    assert passed(load('RepairFilter', inventory), hosts(3), request()) == ['h1', 'h3']


def test_an_external_service_that_is_away():
    filter_ = load('RepairFilter', '[idioms]\ninventory = http://127.0.0.1:9/\n')
    with pytest.raises(errors.ExtensionFailed, match='ServiceUnavailable'):
        passed(filter_, hosts(1), request())


def test_the_database_is_for_nova_beside():
    """Without it, what is asked for says what would help."""
    with pytest.raises(errors.ClassNotFound) as refused:
        testing.load('tests.plugins.neighbours.Neighbours')
    assert 'Neighbours' in str(refused.value)
    objects = importlib.import_module('nova.objects')
    with pytest.raises(AttributeError, match=r'nova\.objects\.HostMapping: .*use_nova'):
        _ = objects.HostMapping


def test_the_page_lists_every_idiom(root):
    page = (root / 'docs' / 'plugins.md').read_text()
    load('RepairFilter')
    module = importlib.import_module('tests.plugins.idioms')
    known = [n for n, c in vars(module).items() if isinstance(c, type)]
    assert len(known) == 8
    assert [name for name in known if f'`{name}`' not in page] == []
