# SPDX-License-Identifier: Apache-2.0
"""Each deliberate difference is one: nova fails where we do not."""

import pytest

from tests.differential import ours
from tests.differential.clouds import EVERY_HOST, NEW
from tests.differential.differences import differences
from tests.differential.verdicts import VERDICTS, mended, quirks_of

REQUEST = {
    **dict.fromkeys(('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap'), 1),
    **dict.fromkeys(('image', 'image_id', 'group', 'destination')),
    **dict.fromkeys(('ignore_hosts', 'force_hosts', 'force_nodes')),
    'flavor_name': 'small',
    'extra_specs': {},
    'scheduler_hints': {},
    'project_id': 'p1',
}


def plain(filter_, request=(), **host):
    """Return a cloud of one host that goes through one filter."""
    names = {'host': 'h1', 'nodename': 'n1', 'uuid': NEW[0]}
    return {
        'options': {},
        'filters': [filter_],
        'weighers': [],
        'all_filters': [filter_],
        'all_weighers': [],
        'instances': NEW[:1],
        'request': {**REQUEST, **dict(request)},
        'every_host': EVERY_HOST,
        'hosts': [{**names, **host}],
    }


GROUP = {'policy': 'affinity', 'members': [], 'hosts': ['h1'], 'rules': {}}
BITS = {'hw_architecture': 'x86_64', 'hw_maxphysaddr_bits': 42}
SHOWS = {
    'Q2': plain('ComputeFilter', {'scheduler_hints': None}),
    'Q3': plain('ImagePropertiesFilter', supported_instances=None),
    'Q9': plain('ImagePropertiesFilter', {'image': BITS}, cpu_info='{}'),
    'Q10': plain(
        'ServerGroupAffinityFilter', {'group': {**GROUP, 'has_policies': False}}
    ),
}


def test_every_verdict_has_a_cloud_on_which_it_shows():
    assert [verdict.quirk for verdict in VERDICTS] == list(SHOWS)


@pytest.mark.parametrize('quirk', SHOWS)
def test_nova_fails_where_we_decide(peer, quirk):
    cloud = SHOWS[quirk]
    assert quirks_of(cloud) == [quirk]
    peer.ask([cloud, mended(cloud)])
    theirs, of_mended = peer.answers()
    answer = ours.answer(cloud)
    assert differences(theirs, answer)
    assert differences(of_mended, answer) == []
    assert 'refused' in theirs or 'raises' in theirs['decisions'][0]
    assert 'raises' not in answer['decisions'][0]
