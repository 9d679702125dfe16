# SPDX-License-Identifier: Apache-2.0
"""The nodes of the walk-through's hosts, and what each says to 1 GiB pages."""

import json

import pytest

from novasched_lab.local import numa

HOSTS = [f'sh11-compute-s3-10e5e12e{number}' for number in (25, 26, 28, 29)]
NO_PAGES = '0 of 1 pages of 1 GiB free'


@pytest.fixture(scope='module')
def scenes():
    return numa.scenes()


def answers(scene):
    """Return for each host the nodes in the order of trying, with their answers."""
    return {
        host.host: {cell.cell: cell.answer for cell in host.cells}
        for host in scene.hosts
    }


def taken(scene):
    return [host.taken for host in scene.hosts]


def test_all_hosts_with_nodes_fit(scenes):
    as_they_are, _ = scenes
    assert [host.host for host in as_they_are.hosts] == HOSTS
    assert taken(as_they_are) == [0, 1, 0, 0]


def test_without_pages_on_the_first_node_the_second_is_taken(scenes):
    _, used_up = scenes
    assert taken(used_up) == [1, 0, 1, None]
    found = answers(used_up)
    assert found[HOSTS[0]] == {0: NO_PAGES, 1: numa.TAKES}
    assert list(found[HOSTS[1]]) == [1, 0]


def test_a_host_without_pages_on_any_node_says_so_for_each(scenes):
    assert answers(scenes[1])[HOSTS[3]] == {0: NO_PAGES, 1: NO_PAGES}


def test_nodes_after_the_one_that_is_taken_are_not_asked(scenes):
    assert answers(scenes[0])[HOSTS[0]] == {0: numa.TAKES}


def test_the_scenes_as_text(scenes):
    text = numa.as_text(scenes)
    assert text.splitlines()[:4] == [
        'The server: 1 vCPU, 1024 MiB in pages of 1 GiB, in one cell',
        'A cell may have 4 vCPUs per CPU; spread: that with the fewest is tried first',
        '',
        'As the hosts are: 4 of 4 hosts fit',
    ]
    assert f'  {HOSTS[3]}: does not fit: cell 1 was full already\n' in text
    assert f'    1         0          86          68  {numa.TAKES}\n' in text
    assert text.count('The server') == 1
    assert max(map(len, text.splitlines())) <= 80


def test_the_scenes_as_json(scenes):
    first, _ = json.loads(numa.as_json(scenes))
    assert first['hosts'][0]['taken'] == 0
    assert first['hosts'][0]['cells'][0] == {
        'cell': 0,
        'vcpus_used': 86,
        'pages_free': 68,
        'answer': numa.TAKES,
    }


@pytest.mark.parametrize(('taken', 'full', 'outcome'), [
    (0, [0], 'h: cell 0'),
    (None, [], 'h: does not fit'),
    (None, [0, 1], 'h: does not fit: cells 0 and 1 were full already'),
])  # fmt: skip
def test_why_a_host_does_not_fit(taken, full, outcome):
    scene = numa.Scene('t', 'r', 'm', [numa.TriedHost('h', taken, [], full)])
    assert f'  {outcome}\n' in numa.as_text([scene])
