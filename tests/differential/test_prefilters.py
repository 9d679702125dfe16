# SPDX-License-Identifier: Apache-2.0
"""What prefilters add to random specs, and how they refuse: nova's and ours."""

import collections
import json
import subprocess
from pathlib import Path

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.manager.candidate_query import CandidateQueries
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestGroup, RequestLevelParams, RequestSpec
from novasched.releases import NEWEST
from novasched.resources import prefilters
from novasched.resources.requirements import NetworkOrSubnet, Port
from novasched.rpc.faults import to_wire
from novasched.scheduler.aggregates import Aggregate
from tests.differential import specs
from tests.live.peer import peer_program
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeNetwork, FakePlacement, FakeView
from tests.support.tables.examples import scaled

SEEDS = range(scaled(1000))


@pytest.fixture(scope='module')
def theirs(tmp_path_factory):
    """What nova answers to the specs, by seed."""
    made = [specs.spec(seed) for seed in SEEDS]
    answers = answers_to(made, tmp_path_factory.mktemp('peer'))
    return dict(zip(SEEDS, answers, strict=True))


def answers_to(made, scratch):
    """Return what nova answers to specs."""
    log = scratch / 'prefilters.log'
    program = Path(__file__).with_name('peer_prefilters.py')
    asked = json.dumps({'specs': made})
    with log.open('w') as errors_of_peer:
        run = subprocess.run(
            [peer_program('python'), program, scratch / 'api.sqlite'],
            input=asked + '\n',
            stdout=subprocess.PIPE,
            stderr=errors_of_peer,
            text=True,
            check=False,
        )
    assert run.returncode == 0, log.read_text()[-2000:]
    return json.loads(run.stdout)['answers']


class View(FakeView):
    """Knows a lowest version of the computes, as the spec has it."""

    def __init__(self, described):
        super().__init__(factories.hosts())
        self._version = described['version']
        self.aggregates.update(
            Aggregate(number, uuid, uuid, metadata=metadata)
            for number, (uuid, metadata) in enumerate(described['aggregates'].items())
        )

    def minimum_compute_version(self):
        return self._version


def request_of(described):
    """Return the request that a spec describes."""
    networks = [NetworkRequest(**one) for one in described['networks']]
    pci = [InstancePCIRequest(**one) for one in described['pci_requests']]
    return RequestSpec(
        flavor=Flavor(
            name='flavor',
            vcpus=2,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=described['extra_specs'],
        ),
        image=ImageMeta(
            name='image',
            disk_format=described['disk_format'],
            properties=ImageMetaProps(**described['properties']),
        ),
        is_bfv=described['is_bfv'],
        project_id=described['project_id'],
        availability_zone=described['availability_zone'],
        requested_networks=NetworkRequestList(objects=networks),
        requested_resources=[
            RequestGroup(
                requester_id=one['requester_id'],
                resources=one['resources'],
                required_traits=set(one['required_traits']),
            )
            for one in described['requested_resources']
        ],
        pci_requests=InstancePCIRequests(requests=pci),
        request_level_params=RequestLevelParams(
            root_required=set(described['root_required'])
        ),
    )


def facts_of(described, request):
    """Return the facts of a spec, as they are found out."""
    world = described['world']
    ports = {
        uuid: Port(
            port['binding:vnic_type'],
            port['network_id'],
            next((one['subnet_id'] for one in port['fixed_ips']), None),
        )
        for uuid, port in world['ports'].items()
    }
    segments = {
        **{
            NetworkOrSubnet('subnet', uuid): frozenset(filter(None, [one]))
            for uuid, one in world['subnets'].items()
        },
        **{
            NetworkOrSubnet('network', uuid): frozenset(filter(None, found))
            for uuid, found in world['networks'].items()
        },
    }
    placement = FakePlacement()
    placement.known_aggregates = {
        uuid: frozenset(found) for uuid, found in world['segments'].items()
    }
    finder = CandidateQueries(View(described), placement, FakeNetwork(ports, segments))
    return finder.inputs(RequestContext(overwrite=False), request)


def our_answer(described, release=NEWEST):
    """Return what our prefilters add, in the form of the peer's answers."""
    conf = cfg.ConfigOpts()
    for group, listed in prefilters.OPTS.items():
        conf.register_opts(listed, group)
    for name, value in described['options'].items():
        conf.set_override(name, value, 'scheduler')
    request = request_of(described)
    facts = facts_of(described, request)
    try:
        added = prefilters.run(prefilters.from_conf(conf, release), request, facts)
    except errors.RequestError as problem:
        wire = to_wire(problem)
        return {'error': [type(wire).__name__, str(wire)]}
    if added.refused is not None:
        return {'error': ['RequestFilterFailed', f'Scheduling failed: {added.refused}']}
    return {
        'root_required': sorted(added.root_required | request.root_required),
        'root_forbidden': sorted(added.root_forbidden),
        'member_of': [sorted(one) for one in added.member_of],
        'not_member_of': sorted(added.not_member_of),
        'groups': {
            group.requester_id: sorted(
                group.required_traits
                | added.group_required.get(group.requester_id, frozenset())
            )
            for group in request.requested_resources
        },
    }


def test_prefilters_add_and_refuse_alike(theirs):
    differ = [
        f'seed {seed}: nova {theirs[seed]}, we {ours}'
        for seed in SEEDS
        if (ours := our_answer(specs.spec(seed))) != theirs[seed]
    ]
    assert differ == [], f'{len(differ)} differ'


def test_specs_have_much_to_do(theirs):
    """Most are answered; every trait and every kind of refusal comes up."""
    refused = collections.Counter(
        answer['error'][0] for answer in theirs.values() if 'error' in answer
    )
    added = [answer for answer in theirs.values() if 'error' not in answer]
    assert set(refused) == {'RequestFilterFailed', 'FlavorImageConflict', 'Invalid'}
    assert len(added) > len(theirs) / 3
    for part in ('member_of', 'not_member_of'):
        assert sum(1 for answer in added if answer[part]) > len(theirs) / 20
    traits = {trait for answer in added for trait in answer['root_required']}
    assert len(traits) > 25
