# SPDX-License-Identifier: Apache-2.0
"""A composed scheduler leaves a record of each request in its files."""

import ast
import contextlib
import logging
import re
from pathlib import Path

import pytest

from novasched import errors
from novasched.decisions import files
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.objects.request_spec import Destination
from novasched.scheduler.reasons import FIRST_STEP
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

HOSTS = [
    Host('h1', memory_mb=9000),
    Host('h2', memory_mb=8500, cell='cell2'),
    Host('h3', disabled=True),
    Host('h4', down=True),
    Host('h5', vcpus=1),
]
REBUILD = {'_nova_check_type': ['rebuild']}
PINNED = {
    'numa_topology': factories.guest_topology(
        factories.guest_cell(0, range(2), 'dedicated')
    )
}
KEYS = (
    'decision', 'blocker', 'plugin', 'code', 'hosts', 'candidates', 'cut', 'left_out',
    'servers', 'flavor', 'zone', 'took_ms',
)  # fmt: skip
FILTERED = 'Filtering removed all hosts'
RESULTS = re.compile(r'Filter results: (\[.*\])$')
STEP = re.compile(r'(\w+): \(start: (\d+), end: (\d+)\)')


@pytest.fixture
def ask(cloud, caplog):
    """Ask a scheduler of its own; return the answer, or None, and the record."""
    caplog.set_level(logging.INFO, 'novasched')

    def asked(count=1, hosts=HOSTS, uuids=..., options=None, **request):
        made = cloud(hosts, **(options or {}))
        scheduler = made.compose()
        answer = None
        with contextlib.suppress(errors.NovaschedError):
            uuids = new_uuids(count) if uuids is ... else uuids
            answer = made.ask(scheduler, uuids, True, **request)
        scheduler.close()
        directory, _ = files.from_conf(made.conf)
        reader = DecisionFiles(Path(directory))
        (head,) = reader.find(Criteria())
        return answer, reader.read(head.id)

    return asked


def funnel(decision):
    """The steps of a decision, as nova's log line has them."""
    return [(step.name, step.before, step.after) for step in decision.steps]


def logged_funnel(caplog):
    """What nova's log line says of the steps."""
    (line,) = [text for text in caplog.messages if text.startswith(FILTERED)]
    steps = ast.literal_eval(RESULTS.search(line)[1])
    matched = [STEP.fullmatch(step).groups() for step in steps]
    return [(name, int(start), int(end)) for name, start, end in matched]


def line_of(caplog):
    """Keys and values of our log line."""
    (line,) = [text for text in caplog.messages if text.startswith('No valid host: ')]
    pairs = line.removeprefix('No valid host: ').split(' ')
    return [tuple(pair.split('=', 1)) for pair in pairs]


def assert_adds_up(record):
    """Assert that the counts of all decisions that are kept whole add up."""
    for decision in record.body.whole_decisions:
        outcomes = list(decision.outcomes)
        for number, step in enumerate(decision.steps):
            counted = sum(reason.hosts for reason in step.reasons)
            assert counted == step.before - step.after
            assert outcomes.count(FIRST_STEP + number) == counted
        assert len(record.host_lists[decision.host_list]) == decision.hosts


@cases(
    ('request_', 'picked', 'filtered'),
    ('a boot', {}, 'h1', True),
    ('a forced host', {'force_hosts': ['h2']}, 'h2', False),
    ('an ignored host', {'ignore_hosts': ['h1']}, 'h2', True),
    (
        'a destination',
        {'requested_destination': Destination(host='h2', node=None)},
        'h2',
        True,
    ),
)
def test_a_request_that_gets_a_host(ask, request_, picked, filtered):
    answer, record = ask(**request_)
    assert answer[0][0] == picked
    assert (record.head.result, record.head.blocker) == ('scheduled', '')
    (decision,) = record.body.decisions
    (server,) = record.body.servers
    assert decision.host == server.host == picked
    assert server.alternates == answer[0][1:]
    assert bool(decision.steps) == ('filter' in record.body.stages_ms) == filtered
    assert [claim.outcome for claim in record.body.claims] == ['claimed']
    assert record.body.claims[0].host == picked
    assert {'prefilter', 'query', 'refresh', 'claim', 'notify'} <= set(
        record.body.stages_ms
    )
    assert_adds_up(record)


@cases(
    ('request_', 'options', 'blocker', 'plugin', 'code'),
    ('NUMA', PINNED, {}, 'filters', 'NUMATopologyFilter', 'numa-missing'),
    (
        'a zone',
        {'availability_zone': 'mars'},
        {'scheduler': {'query_placement_for_availability_zone': False}},
        'filters',
        'AvailabilityZoneFilter',
        'wrong-zone',
    ),
    (
        'an image',
        {'image': {'hw_architecture': 'aarch64'}},
        {},
        'filters',
        'ImagePropertiesFilter',
        'image-not-supported',
    ),
)
def test_a_request_that_the_filters_refuse(
    ask, caplog, request_, options, blocker, plugin, code
):
    enabled = ['ComputeFilter', 'AvailabilityZoneFilter', 'ImagePropertiesFilter']
    chosen = {'filter_scheduler': {'enabled_filters': [*enabled, 'NUMATopologyFilter']}}
    answer, record = ask(options={**chosen, **options}, **request_)
    assert answer is None
    head = record.head
    assert (head.blocker, head.plugin, head.code) == (blocker, plugin, code)
    (decision,) = record.body.decisions
    assert funnel(decision) == logged_funnel(caplog)
    assert_adds_up(record)
    line = line_of(caplog)
    assert tuple(key for key, _ in line) == KEYS
    said = dict(line)
    assert said['decision'] == head.id
    assert (said['blocker'], said['plugin'], said['code']) == (blocker, plugin, code)
    assert (said['hosts'], said['candidates']) == ('5', '5')
    assert said['cut'] == 'no'


def test_a_rebuild(ask):
    request = {'scheduler_hints': REBUILD, 'force_hosts': ['h2']}
    answer, record = ask(uuids=None, **request)
    assert answer == [['h2']]
    assert (record.head.result, record.head.candidates) == ('scheduled', 5)
    assert record.body.request.is_rebuild is True
    assert (record.body.asked, record.body.claims) == ([], [])
    (decision,) = record.body.decisions
    assert decision.host == 'h2'
    assert_adds_up(record)
