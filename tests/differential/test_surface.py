# SPDX-License-Identifier: Apache-2.0
"""A plugin sees of hosts and requests what nova shows it, or it is listed why not."""

import fnmatch
import json
import re
import subprocess

import pytest

from novasched import plugins
from novasched.compat import availability_zones
from novasched.compat.nova_exceptions import EXCEPTIONS
from novasched.objects.base import NovaObject
from novasched.objects.request_spec import RequestSpec
from tests.differential import surface, surface_calls, surface_cloud, surface_exceptions
from tests.live.peer import peer_program

KINDS = {
    'ReadOnly': 'ReadOnlyDict',
    'HostTopology': 'NUMATopology',
    'HostCell': 'NUMACell',
    'Pages': 'NUMAPagesTopology',
    'Networks': 'NetworkMetadata',
    'InstanceRow': 'Instance',
    'HostPools': 'PciDeviceStats',
}
"""Classes of ours that stand for one of nova's of another name."""


# These are exceptions of novasched and of oslo.versionedobjects, too.
OURS_TOO = {'NoValidHost', 'ObjectActionError', 'OrphanedObjectError'}
OBJECTS = '.pci_stats.', '.maps_requested_resources['
"""What is in attributes that are exceptions: it is looked at elsewhere."""
ASKED = {
    'requests': surface_cloud.requests(),
    'exceptions': sorted(EXCEPTIONS.keys() - OURS_TOO),
}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    return surface_cloud.Cloud(tmp_path_factory.mktemp('cloud'))


def ours(cloud, theirs):
    """Walk over ours, and ask for every name that theirs have."""
    names = {}
    for path in theirs:
        if found := re.search(r':(\w+)\.(\w+)$', path):
            names.setdefault(found[1], set()).add(found[2])
    for kind in names:
        names[kind] -= surface.PROTOCOLS.keys()
    seen = surface.Surface(KINDS, names)
    plugins.install_nova_modules(cloud.conf())
    with cloud.hosts() as hosts:
        host = hosts.state(hosts.host.tolist().index('h1'))
        seen.walk('host', host)
        for name, primitive in surface_cloud.requests().items():
            request = NovaObject.obj_from_primitive(primitive)
            seen.walk(f'request {name}', request)
            seen.ask_for_devices(name, host, request)
        seen.walk('request unset', RequestSpec())
        with availability_zones.deciding(hosts):
            surface_calls.call_each(seen, host, ASKED['exceptions'])
    return json.loads(json.dumps(seen.found, default=repr))


def same(expected, found):
    """Whether it is the same to a plugin: what is raised may be more than nova's."""
    if expected[0] == 'raises' and found and found[0] == 'raises':
        return expected[1][0] in found[1]
    return expected == found


def excused(path):
    """Return the exceptions that a path falls under."""
    found = re.fullmatch(r'(\w+)\.?(.*)', path.rpartition(':')[2])
    kind, name = found.groups() if found else ('', '')
    return {
        (reason, of_kind, pattern)
        for reason, of_kind, pattern in surface_exceptions.rules()
        if of_kind in ('*', kind) and fnmatch.fnmatchcase(name, pattern)
    }


@pytest.fixture(scope='module')
def differences(cloud):
    """What differs, by path."""
    theirs = cloud.peer.ask(ASKED)
    mine = ours(cloud, theirs)
    assert len(theirs) > 5000
    return {
        path: (expected, mine.get(path))
        for path, expected in theirs.items()
        if not same(expected, mine.get(path)) and not any(o in path for o in OBJECTS)
    }


def test_plugins_see_what_nova_shows(differences):
    unknown = {path: both for path, both in differences.items() if not excused(path)}
    assert not unknown


def test_every_exception_is_one(differences):
    used = set().union(*map(excused, differences))
    assert [rule for rule in surface_exceptions.rules() if rule not in used] == []


BESIDE = """
[filter_scheduler]
available_filters = tests.plugins.neighbours.NeighboursFilter
enabled_filters = NeighboursFilter

[novasched]
plugins_use_nova = true
"""


def test_a_plugin_that_uses_nova_decides_as_there(cloud, tmp_path):
    """It reads instances and mappings by nova's objects, with the request's context."""
    path = tmp_path / 'nova.conf'
    path.write_text((cloud.directory / 'nova.conf').read_text() + BESIDE)
    asked = []
    for project, zones in (('p', ['az1', 'az2']), ('p', ['az1']), ('q', ['az1'])):
        primitive = surface_cloud.requests()['01c']
        hints = {'project_id': project, 'scheduler_hints': {'zones': zones}}
        primitive['nova_object.data'].update(hints)
        asked.append(primitive)
    program = surface_cloud.HERE / 'beside_nova.py'
    running = [
        subprocess.Popen(
            [peer_program('python'), program, side, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for side in ('nova', 'novasched')
    ]
    for process in running:
        printed, problem = process.communicate(json.dumps(asked))
        assert process.returncode == 0, problem.strip().rpartition('\n')[2]
        assert json.loads(printed) == [['h2'], [], ['h1']]
