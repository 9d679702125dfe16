# SPDX-License-Identifier: Apache-2.0
"""A shadow beside the peer's own scheduler, conductors and computes."""

import contextlib
import os
import signal

import pytest

from novasched.decisions.comparison import KnownBy, Verdict
from novasched.inspection.questions.shadow import LEAST
from tests.faults.proxy import Proxy
from tests.live.cloud import built
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import PeerCloud
from tests.live.servers.process import running, wait_until
from tests.live.shadows import KNOWN_S, SAME, Shadow, boot_compared, move_compared

pytestmark = pytest.mark.ours

BOOTS = int(os.environ.get('NOVASCHED_SHADOW_BOOTS', '12'))
"""A fifth as many servers move. More of both are a longer proof."""
TRIES = 10
TURNED = 15
PICKY = 'shadowed-picky'
NOTIFYING = {'oslo_messaging_notifications': {'driver': 'messagingv2'}}


class ShadowedCloud(PeerCloud):
    """One cell with equal computes, and one that refuses each server once."""

    cells = ('cell1',)
    computes = {
        **{f'shadowed-{n}': ('cell1', 'fake.MediumFakeDriver') for n in range(4)},
        PICKY: ('cell1', 'fake.FakeRescheduleDriver'),
    }

    def start_nova(self, name, **sections):
        """Start a scheduler of the peer."""
        self.write_scheduler_conf(name, **NOTIFYING, **sections)
        self.start_peer_scheduler(name)
        self._wait_consumed(self.transport_url, f'scheduler.{name}', self[name])


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, servers, peer_programs):
    directory = tmp_path_factory.mktemp('shadowed')
    with built(ShadowedCloud(directory, servers, peer_programs)) as made:
        made.start_peer()
        made.start_nova('nova')
        for name in made.computes:
            made.wait_compute(name)
        made.discover_hosts()
        yield made


@pytest.fixture(scope='module')
def opened(cloud):
    with contextlib.closing(PeerApi(cloud.port)) as made:
        made.wait_ready(cloud['api'])
        made.add_flavor('small', 1, 256, 1)
        made.add_flavor('huge', 11, 256, 1)
        for times, name in enumerate(('large', 'larger', 'largest'), 2):
            made.add_flavor(name, 1, 256 * times, 1)
        made.set_service(PICKY, status='disabled')
        yield made


@pytest.fixture
def api(opened):
    """The API for one test; what the test made is deleted."""
    yield opened
    opened.delete_all()


@pytest.fixture(scope='module')
def shadow(cloud, opened, placement):
    """Placement is reached through a proxy, which sees questions alone."""
    with running(Proxy(placement.url)) as gate:
        through = {'endpoint_override': gate.url}
        yield Shadow(cloud, placement=through, **NOTIFYING)
        assert {each.method for each in gate.seen} == {'GET'}


def test_each_decision_is_compared_and_each_difference_has_a_cause(api, shadow):
    compared = boot_compared(api, shadow, BOOTS)
    assert all(each.nova_ms > 0 for each in compared)


def test_a_decision_without_a_choice_is_equal(api, shadow):
    named = [uuid for n in range(3) for uuid in api.boot(host=f'shadowed-{n}')]
    body = {'server_group': {'name': 'apart', 'policy': 'anti-affinity'}}
    group = api.request('POST', '/os-server-groups', body)['server_group']['id']
    apart = []
    for _ in range(4):
        apart += api.boot(hints={'group': group})
        api.active(apart[-1])
    (fifth,) = api.boot(hints={'group': group})
    (huge,) = api.boot('huge')
    *compared, last, none, nowhere = shadow.of([*named, *apart, fifth, huge])
    assert {each.verdict for each in compared[:3]} == {Verdict.EQUAL}
    assert {each.verdict for each in compared[3:]} <= {*SAME, Verdict.BETTER}
    assert last.verdict in SAME
    for each in (none, nowhere):
        assert (each.verdict, each.ours, each.nova) == (Verdict.EQUAL, None, None)
        assert each.known_by == KnownBy.FAILED


def test_moves_are_compared(api, shadow):
    move_compared(api, shadow, max(2, BOOTS // 5))


@pytest.fixture
def picky(opened):
    """The compute that refuses is the larger one of two that are enabled."""
    others = [f'shadowed-{n}' for n in range(1, 4)]
    for name, status in ((PICKY, 'enabled'), *((each, 'disabled') for each in others)):
        opened.set_service(name, status=status)
    yield PICKY
    for name, status in ((PICKY, 'disabled'), *((each, 'enabled') for each in others)):
        opened.set_service(name, status=status)


def test_a_host_that_refuses_a_server_is_named(api, shadow, picky):
    for _ in range(TRIES):  # placement follows
        (uuid,) = api.boot()
        api.active(uuid)
        (compared,) = shadow.of([uuid])
        if compared.nova == compared.ours == picky:
            break
    assert (compared.ours, compared.nova, compared.refused) == (picky, picky, picky)


@pytest.fixture
def turned(cloud):
    """Another nova-scheduler, by which a host is better if it has less memory."""
    cloud.running.pop('nova').end_by(signal.SIGKILL)
    cloud.start_nova('turned', filter_scheduler={'ram_weight_multiplier': -1.0})
    yield
    cloud.running.pop('turned').end_by(signal.SIGKILL)
    cloud.start_peer_scheduler('nova', again=True)


def test_a_multiplier_that_nova_has_turned_round_is_found(cloud, api, shadow, turned):
    """The hosts differ in memory alone."""
    for n, flavor in enumerate(('small', 'large', 'larger', 'largest')):
        (uuid,) = api.boot(flavor, host=f'shadowed-{n}')
        api.active(uuid)
    compared = []
    for _ in range(TURNED):
        wait_until(cloud.is_settled, KNOWN_S, 'idle computes')
        (uuid,) = api.boot()
        api.active(uuid)
        compared += shadow.of([uuid])
        api.delete(uuid)
        if len(compared) >= LEAST and 'Without RAMWeigher' in (text := shadow.report()):
            break
    finding = next(line for line in text.splitlines() if line.startswith('Finding'))
    assert finding.startswith('Finding Without RAMWeigher, or with its sign changed')
    assert {each.verdict for each in compared} == {Verdict.BETTER}
    for each in compared:
        report = shadow.replayed(each)
        (server,) = report.servers
        assert (report.is_equal, server.recorded) == (True, each.ours)
        assert server.compared.nova.host == each.nova
        assert server.nova_outcome.startswith('rank ')


def test_nova_serves_while_the_shadow_is_paused_and_once_it_is_killed(api, shadow):
    shadow.process.send(signal.SIGSTOP)
    uuids = api.boot(count=2)
    for uuid in uuids:
        api.active(uuid)
    shadow.process.send(signal.SIGCONT)
    shadow.of(uuids)
    shadow.process.end_by(signal.SIGKILL)
    (uuid,) = api.boot()
    api.active(uuid)
    shadow.start()
    wait_until(lambda: len(shadow.listened()) == 2, KNOWN_S, 'a gap', shadow.process)
