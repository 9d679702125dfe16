# SPDX-License-Identifier: Apache-2.0
"""Random requests, asked for by nova and by us: the same queries to placement.

``--seeds N`` makes N requests; ``--seed S --seeds 1`` makes the one of seed S.
"""

import collections
import json
import urllib.parse

import pytest

from novasched import errors
from novasched.releases import NEWEST
from novasched.resources import Requirements, build_query, not_found, target_of
from novasched.resources.features import of_release
from novasched.rpc import faults
from tests.differential import queries
from tests.differential.peer import Peer
from tests.support.databases.query_table import H0, NOTHING, TABLE, given, request_of

# Ours says the same in fewer words.
NO_POLICY = ('There is more than one numbered', 'The request has several numbered')
# Its text contains the whole group as nova prints it.
OTHER_WORDS = 'ValueError'


@pytest.fixture(scope='module')
def nova(tmp_path_factory):
    """The process that asks with nova."""
    made = Peer(tmp_path_factory.mktemp('peer'), 'peer_queries.py')
    yield made
    made.close()


@pytest.fixture(scope='module')
def tally(nova, request):
    """What was compared, for the summary."""
    made = request.config.stash[queries.TALLY]
    made['version'] = nova.version
    return made


def ours(data, release=NEWEST):
    """Return our queries for a request, or what we raise, as the peer does."""
    request = request_of(data)
    nodes = _nodes(data)
    try:
        query = build_query(
            request, Requirements(), nodes, data['limit'], features=of_release(release)
        )
        if nodes == []:
            raise errors.NoValidHost(not_found(request))
    except errors.RequestError as problem:
        return _raised(problem)
    asked = [query] if query.fallback is None else [query, query.fallback]
    return {
        'queries': [each.encode() for each in asked],
        'warnings': list(query.warnings),
    }


def _nodes(data):
    target = target_of(request_of(data))
    if target is None:
        return None
    return [
        uuid
        for host, node, uuid in data['nodes']
        if target.host in (None, host) and target.node in (None, node)
    ]


def _raised(problem):
    wire = faults.to_wire(problem)
    return {'raises': type(wire).__name__, 'text': str(wire)}


def mended(query):
    """Return the parameters of a query, as we send those that placement refuses.

    Nova asks a group without resources for a host or for traits, we ask the others.
    """
    pairs = urllib.parse.parse_qsl(query, True)
    found = dict(pairs)
    suffixes = [name.removeprefix('resources') for name in found if _is_suffixed(name)]
    if found.get('resources') != '' or 'member_of' in found or not suffixes:
        return pairs
    del found['resources']
    tree = found.pop('in_tree', None)
    for suffix in suffixes if tree else ():
        found.setdefault(f'in_tree{suffix}', tree)
    traits = ','.join(found.pop(name, '') for name in ('required', 'root_required'))
    if traits != ',':
        every = sorted(
            {*filter(None, traits.split(','))}, key=lambda t: (t[0] == '!', t)
        )
        found['root_required'] = ','.join(every)
    rest = [pair for pair in pairs if pair[0] in REPEATED or 'member_of' in pair[0]]
    once = {name: value for name, value in found.items() if (name, value) not in rest}
    return sorted([*once.items(), *rest])


REPEATED = ('same_subtree',)


def _is_suffixed(name):
    return name.startswith('resources') and name != 'resources'


def comparable(answer, release=NEWEST):
    """Return what must be the same: every parameter, name of an error, warning; and
    the text of an error, where the release is the one whose texts ours are."""
    if 'queries' in answer:
        asked = [mended(query) for query in answer['queries']]
        said = [
            'no policy' if text.startswith(NO_POLICY) else text
            for text in answer['warnings']
        ]
        return {'queries': asked, 'warnings': said}
    if answer['raises'] == OTHER_WORDS or release is not NEWEST:
        return {'raises': answer['raises']}
    return answer


def compare(nova, requests):
    """Return where we differ: a text per request."""
    nova.ask(requests)
    of = nova.release
    answers = [comparable(ours(data, of), of) for data in requests]
    theirs = [comparable(answer, of) for answer in nova.answers()]
    found = [
        f'nova: {json.dumps(their, indent=1)}\nwe: {json.dumps(our, indent=1)}\n'
        f'asked: {json.dumps(data)}'
        for data, their, our in zip(requests, theirs, answers, strict=True)
        if their != our
    ]
    return theirs, found


def test_random_requests_give_the_same_queries(nova, tally, seeds):
    made = [queries.request(seed) for seed in seeds]
    theirs, found = compare(nova, made)
    tally.update(requests=len(made))
    tally.update(queries=sum(len(answer.get('queries', ())) for answer in theirs))
    tally.update(refused=sum('queries' not in answer for answer in theirs))
    if found:
        first = f'{len(found)} of the seeds {seeds} differ. The first:\n{found[0]}'
        pytest.fail(first, pytrace=False)


@pytest.mark.parametrize('name', TABLE)
def test_the_table_is_what_nova_asks(nova, name):
    data, expected = TABLE[name]
    theirs, found = compare(nova, [data])
    assert theirs[0]['queries'] == [urllib.parse.parse_qsl(q, True) for q in expected]
    assert found == []


def test_requests_ask_for_everything(nova):
    theirs, _ = compare(nova, [queries.request(seed) for seed in range(1000)])
    names = collections.Counter(
        answer['raises'] for answer in theirs if 'raises' in answer
    )
    assert {faults.TABLE[kind].wire.__name__ for kind in _demands()} <= names.keys()
    names = {
        name
        for answer in theirs
        for query in answer.get('queries', ())
        for name, _ in query
    }
    assert {'in_tree', 'member_of', 'group_policy', 'same_subtree'} <= names


def _demands():
    return [kind for kind in faults.TABLE if issubclass(kind, errors.InvalidDemand)]


def test_numbered_groups_alone_are_asked_for_the_host(nova):
    data = given(
        extra_specs={**NOTHING, 'resources1:VGPU': '1', 'trait:CUSTOM_A': 'required'},
        force_hosts=['h0'],
    )
    nova.ask([data])
    (answer,) = nova.answers()
    assert answer['queries'] == [
        f'in_tree={H0}&limit=1000&required=CUSTOM_A&resources=&resources1=VGPU%3A1'
    ]
    assert ours(data)['queries'] == [
        f'in_tree1={H0}&limit=1000&resources1=VGPU%3A1&root_required=CUSTOM_A'
    ]
    assert compare(nova, [data])[1] == []
