# SPDX-License-Identifier: Apache-2.0
"""Decisions that nova made, made again: funnel, weights to the last bit, order.

``tools/record-golden`` records them. ``pytest --regold`` writes our own decisions
into the files whose cases differ, to be read in review.
"""

import itertools
import json
import pathlib
import random

import pytest
import stevedore

from novasched.objects.request_spec import CellMapping, Destination
from novasched.scheduler.hosts import consume
from novasched.scheduler.pipeline import Profile, decide
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf

HERE = pathlib.Path(__file__).parent
CASES = {
    path.relative_to(HERE).with_suffix('').as_posix(): path
    for path in sorted(HERE.glob('*/*.json'))
    if path.parent.name != 'numa_pci'
}


def conf_of(case):
    conf = make_conf()
    for group, options in case['options'].items():
        for name, value in options.items():
            conf.set_override(name, value, group)
    return conf


def profile_of(case):
    conf = conf_of(case)

    def made(namespace, names):
        manager = stevedore.ExtensionManager(namespace)
        return tuple(manager[name].plugin.from_conf(conf) for name in names)

    return Profile(
        made('novasched.scheduler.filters', case['filters']),
        made('novasched.scheduler.weighers', case['weighers']),
    )


def hosts_of(case):
    hosts = [{**case['every_host'], **one} for one in case['hosts']]
    columns = {name: [one[name] for one in hosts] for name in hosts[0]}
    columns['instances'] = [dict.fromkeys(uuids) for uuids in columns['instances']]
    columns['aggregates'] = [
        tuple(factories.aggregate(n, **metadata) for n, metadata in enumerate(many))
        for many in columns['aggregates']
    ]
    return factories.hosts(**columns)


def request_of(case):
    asked = dict(case['request'])
    group = asked.pop('group')
    if group is not None:
        rules = group.pop('rules')
        asked['instance_group'] = factories.group(**group, **rules)
    moved = asked.pop('destination', None)
    if moved is not None:
        asked['requested_destination'] = Destination(
            cell=CellMapping(uuid=moved['cell']),
            allow_cross_cell_move=moved['allow_cross_cell_move'],
        )
    return factories.request(**asked)


def recorded(decision):
    """Return a decision as a case records it; hosts that tie as a sorted list."""
    names = decision.ranked.nodename.tolist()
    ranked = list(zip(names, decision.totals.tolist(), strict=True))
    ties = itertools.groupby(ranked, key=lambda pair: pair[1])
    return {
        'steps': decision.funnel(),
        'weights': dict(ranked),
        'order': [sorted(name for name, _ in tie) for _, tie in ties],
    }


def decisions(case):
    """Decide on each instance of a case, and consume the host that was best."""
    profile, hosts, request = profile_of(case), hosts_of(case), request_of(case)
    found = []
    for index, uuid in enumerate(case['instances']):
        request = request.for_instance(uuid)
        decision = decide(profile, hosts, request, random.Random(1), index)
        found.append(recorded(decision))
        if not len(decision.ranked):
            break
        best = decision.ranked.state(0)
        hosts = consume(decision.ranked, best._row, request)
        request = request.with_group_on(best.host)
    return found


def accept(path, made):
    case = json.loads(path.read_text())
    case.update(recorded_from='novasched', decisions=made)
    path.write_text(text_of(case))


def text_of(case):
    """Return a case as JSON, with one host and one decision to a line."""
    lines = []
    for key, value in case.items():
        text = json.dumps(value)
        if key in ('hosts', 'decisions') and value:
            items = ',\n'.join(f'    {json.dumps(item)}' for item in value)
            text = f'[\n{items}\n  ]'
        lines.append(f'  {json.dumps(key)}: {text}')
    return '{\n' + ',\n'.join(lines) + '\n}\n'


@pytest.mark.parametrize('name', CASES)
def test_nova_decides_the_same(name, request):
    path = CASES[name]
    case = json.loads(path.read_text())
    expected = case['decisions']
    made = decisions(case)
    if made != expected and request.config.getoption('--regold'):
        accept(path, made)
        return
    assert made == expected


def test_every_case_names_who_decided():
    for path in CASES.values():
        assert json.loads(path.read_text())['recorded_from'], path
