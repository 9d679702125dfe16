# SPDX-License-Identifier: Apache-2.0
"""A shadow beside the peer's own scheduler, conductors and computes."""

import contextlib
import os
import signal

import pytest

from novasched.decisions.comparison import KnownBy, Verdict
from novasched.inspection.questions.shadow import LEAST
from tests.faults.proxy import Proxy
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import PICKY
from tests.live.servers.process import running, wait_until
from tests.live.shadows import (
    KNOWN_S,
    SAME,
    Shadow,
    boot_compared,
    booted,
    move_compared,
)

pytestmark = pytest.mark.ours

BOOTS = int(os.environ.get('NOVASCHED_SHADOW_BOOTS', '12'))
"""A fifth as many servers move. More of both are a longer proof."""
TRIES = 10
TURNED = 15
HOSTS = ('peer-1', 'peer-2', 'peer-3')
NOTIFYING = {'oslo_messaging_notifications': {'driver': 'messagingv2'}}


def start_nova(cloud, name, **sections):
    """Start a scheduler of the peer."""
    cloud.write_scheduler_conf(name, **NOTIFYING, **sections)
    cloud.start_peer_scheduler(name)
    cloud.wait_ready(cloud[name])


def end_nova(cloud, api, name):
    """End it at once, and take its row away."""
    cloud.running.pop(name).end_by(signal.SIGKILL)
    api.delete_service('nova-scheduler', name)


@pytest.fixture(scope='module')
def opened(peer_cloud):
    with contextlib.closing(PeerApi(peer_cloud.port)) as made:
        made.wait_ready(peer_cloud['api'])
        made.add_flavor('huge', 11, 256, 1)
        for times, name in enumerate(('large', 'larger'), 2):
            made.add_flavor(name, 1, 512 * times, 1)
        start_nova(peer_cloud, 'shadowed')
        yield made
        end_nova(peer_cloud, made, 'shadowed')


@pytest.fixture
def api(opened):
    """The API for one test; what the test made is deleted."""
    yield opened
    opened.delete_all()


@pytest.fixture(scope='module')
def shadow(peer_cloud, opened, placement):
    """Placement is reached through a proxy, which sees questions alone."""
    with running(Proxy(placement.url)) as gate:
        through = {'endpoint_override': gate.url}
        made = Shadow(peer_cloud, placement=through, **NOTIFYING)
        yield made
        made.process.stop()
        assert {each.method for each in gate.seen} == {'GET'}


def test_each_decision_is_compared_and_each_difference_has_a_cause(api, shadow):
    compared = boot_compared(api, shadow, BOOTS)
    # Nova tells no end of a request that it fails.
    ended = [each for each in compared if each.known_by != KnownBy.FAILED]
    assert all(each.nova_ms > 0 for each in ended)


def test_a_decision_without_a_choice_is_equal(api, shadow):
    named = [booted(api, host=host) for host in HOSTS]
    body = {'server_group': {'name': 'apart', 'policy': 'anti-affinity'}}
    group = api.request('POST', '/os-server-groups', body)['server_group']['id']
    apart = [booted(api, hints={'group': group}) for _ in HOSTS]
    (fourth,) = api.boot(hints={'group': group})
    (huge,) = api.boot('huge')
    *compared, none, nowhere = shadow.of([*named, *apart, fourth, huge])
    assert {each.verdict for each in compared[:3]} == {Verdict.EQUAL}
    others = [each for each in compared[3:] if each.verdict not in SAME]
    assert [each for each in others if each.verdict != Verdict.BETTER] == []
    assert compared[-1].verdict in SAME
    for each in (none, nowhere):
        assert (each.verdict, each.ours, each.nova) == (Verdict.EQUAL, None, None)
        assert each.known_by == KnownBy.FAILED


@pytest.mark.exhaustive('unit tests compare moves')
def test_moves_are_compared(api, shadow):
    move_compared(api, shadow, max(2, BOOTS // 5), host=HOSTS[0])


@pytest.fixture
def picky(api, shadow):
    """The compute that refuses takes part: it is larger than all others."""
    api.set_service(PICKY, status='enabled')
    yield PICKY
    api.set_service(PICKY, status='disabled')
    for _ in range(TRIES):  # placement follows
        (compared,) = shadow.of([booted(api)])
        if PICKY not in (compared.ours, compared.nova):
            break


@pytest.mark.exhaustive('unit tests have refusals')
def test_a_host_that_refuses_a_server_is_named(api, shadow, picky):
    for _ in range(TRIES):
        (compared,) = shadow.of([booted(api)])
        if compared.nova == compared.ours == picky:
            break
    assert (compared.ours, compared.nova, compared.refused) == (picky, picky, picky)


@pytest.fixture
def turned(peer_cloud, opened):
    """Another nova-scheduler, by which a host is better if it has less memory."""
    end_nova(peer_cloud, opened, 'shadowed')
    multiplier = {'ram_weight_multiplier': -1.0}
    start_nova(peer_cloud, 'turned', filter_scheduler=multiplier)
    yield
    end_nova(peer_cloud, opened, 'turned')
    start_nova(peer_cloud, 'shadowed')


@pytest.mark.exhaustive('it boots for a minute; unit tests find weighers')
def test_a_multiplier_that_nova_has_turned_round_is_found(
    peer_cloud, api, shadow, turned
):
    """The hosts differ in memory alone."""
    for flavor, host in zip(('small', 'large', 'larger'), HOSTS, strict=True):
        booted(api, flavor, host=host)
    compared = []
    for _ in range(TURNED):
        wait_until(peer_cloud.is_settled, KNOWN_S, 'idle computes')
        uuid = booted(api)
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
    uuids = [booted(api) for _ in range(2)]
    shadow.process.send(signal.SIGCONT)
    shadow.of(uuids)
    shadow.process.end_by(signal.SIGKILL)
    booted(api)
    shadow.start()
    wait_until(lambda: len(shadow.listened()) == 2, KNOWN_S, 'a gap', shadow.process)
