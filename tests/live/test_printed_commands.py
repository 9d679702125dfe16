# SPDX-License-Identifier: Apache-2.0
"""Commands that are printed for operators mend what they are printed for.

Nova's own programs run as they are. A command of the client is sent as the request that
the client makes of it, as the client needs an identity service.
"""

import io
import json
import re
import shlex

import pytest

from novasched.cmd import manage
from novasched.inspection.texts import advice
from novasched.manage import audit
from novasched.manage.program import CommandProgram
from novasched.scheduler.reasons import Code
from tests.live.peer_api import WORK_S
from tests.live.servers.process import wait_until
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

AMOUNTS = {'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 2}
FLAVOR = 'bigger'
ALLOCATION = ('openstack', 'resource', 'provider', 'allocation')


class Operator:
    """Runs what is printed, on the peer's cloud."""

    def __init__(self, cloud, api, placement):
        self.cloud = cloud
        self.api = api
        self.placement = placement
        self.nodes = {host: uuid for uuid, host in cloud.providers().items()}
        self._conf = cloud.dir / 'super-conductor' / 'nova.conf'

    def server(self, host):
        """Boot a server on a host."""
        (uuid,) = self.api.boot(FLAVOR, host=host)
        self.api.active(uuid)
        return uuid

    def hold(self, server, *hosts):
        """Have a server hold its amounts on these hosts alone."""
        nodes = [self.nodes[host] for host in hosts]
        self._write(server, {node: {'resources': AMOUNTS} for node in nodes})

    def _write(self, consumer, allocations):
        held = self.placement.get(f'/allocations/{consumer}')
        owner = {'project_id': 'project', 'user_id': 'user'}
        kept = {key: held.get(key, value) for key, value in owner.items()}
        generation = held.get('consumer_generation')
        body = {'allocations': allocations, 'consumer_generation': generation, **kept}
        self.placement.put(f'/allocations/{consumer}', body)

    def offer(self, host, total):
        """Change how many VCPUs a host has."""
        path = f'/resource_providers/{self.nodes[host]}/inventories/VCPU'
        has = self.placement.get(path)
        self.placement.put(path, has | {'total': total})
        return has['total']

    def audit(self):
        """Return the findings of the audit: problems and commands by consumer."""
        out = io.StringIO()
        program = CommandProgram(manage.commands(), stdout=out)
        words = ['placement', 'audit', '-f', 'json']
        code = program.run([f'--config-file={self._conf}', *words])
        rows = json.loads(out.getvalue())
        assert code == (3 if rows else 0)
        return {row['Consumer']: (row['Problem'], row['Command']) for row in rows}

    def run(self, command):
        match shlex.split(command):
            case ['nova-manage', *words]:
                self.cloud.manage(self._conf, *words)
            case [*words, 'delete', consumer] if tuple(words) == ALLOCATION:
                self.placement.release(consumer)
            case [*words, consumer] if (*words[:5],) == (*ALLOCATION, 'unset'):
                options = dict(zip(words[6::2], words[5::2], strict=True))
                assert set(options.values()) == {'--provider'}
                held = self.placement.get(f'/allocations/{consumer}')['allocations']
                self._write(consumer, {p: held[p] for p in held.keys() - options})
            case ['openstack', 'server', 'migrate', '--live-migration', server]:
                self.api.act(
                    server, 'os-migrateLive', {'host': None, 'block_migration': 'auto'}
                )
                self.api.becomes(server, 'ACTIVE')
            case ['openstack', 'server', 'migrate', server]:
                self.api.act(server, 'migrate')
                self.api.becomes(server, 'VERIFY_RESIZE')
                self.api.act(server, 'confirmResize')
                self.api.becomes(server, 'SHUTOFF')
            case ['openstack', 'compute', 'service', 'set', option, host, _]:
                changes = {
                    '--enable': {'status': 'enabled'},
                    '--up': {'forced_down': False},
                }
                self.api.set_service(host, **changes[option])
            case words:
                pytest.fail(f'an unknown command: {words}')

    def wait_in_order(self):
        """Wait until there is nothing to be found: the end of a migration comes after
        its server is there."""
        wait_until(lambda: self.audit() == {}, WORK_S, 'a cloud in order')

    def wait_released(self, server):
        """Wait until a server that was offloaded holds nothing any more."""

        def released():
            row, _ = self.cloud.instance(server)
            return row['host'] is None and self.cloud.held(server) == {}

        wait_until(released, WORK_S, 'its release')


@pytest.fixture
def operator(peer_cloud, peer_api, placement):
    return Operator(peer_cloud, peer_api, placement)


@cases(
    'own, holds, command',
    ('another host', 'peer-1', ['peer-2', 'peer-3'], audit.HEAL),
    ('one of them', 'peer-1', ['peer-1', 'peer-3'], audit.UNSET),
)
def test_doubled_server_holds_its_own_host_alone(operator, own, holds, command):
    server = operator.server(own)
    operator.hold(server, *holds)
    ((problem, printed),) = operator.audit().values()
    assert problem == 'doubled'
    assert printed.startswith(command.removesuffix('{}'))
    operator.run(printed)
    assert operator.cloud.held(server) == {own: AMOUNTS}
    assert operator.audit() == {}


def test_offloaded_server_holds_nothing(operator):
    server = operator.server('peer-1')
    operator.api.act(server, 'shelve')
    operator.api.becomes(server, 'SHELVED_OFFLOADED')
    operator.wait_released(server)
    operator.hold(server, 'peer-2', 'peer-3')
    ((problem, printed),) = operator.audit().values()
    assert problem == 'doubled'
    operator.run(printed)
    assert operator.cloud.held(server) == {}
    assert operator.audit() == {}


def test_orphan_holds_nothing(operator, new_uuid):
    operator.hold(uuid := new_uuid(), 'peer-1')
    ((problem, printed),) = operator.audit().values()
    assert problem == 'orphan'
    operator.run(printed)
    assert operator.cloud.held(uuid) == {}
    assert operator.audit() == {}


@pytest.mark.parametrize('is_stopped', [False, True], ids=['active', 'stopped'])
def test_server_leaves_a_host_over_capacity(operator, is_stopped):
    server = operator.server('peer-1')
    if is_stopped:
        operator.api.act(server, 'os-stop')
        operator.api.becomes(server, 'SHUTOFF')
    total = operator.offer('peer-1', 1)
    try:
        ((problem, printed),) = operator.audit().values()
        assert problem == 'over capacity'
        operator.run(printed)
        assert operator.cloud.held(server) == {'peer-2': AMOUNTS}
        operator.wait_in_order()
    finally:
        operator.offer('peer-1', total)


def test_placement_learns_of_an_aggregate(operator):
    made = {'aggregate': {'name': 'rack', 'availability_zone': None}}
    aggregate = operator.api.request('POST', '/os-aggregates', made)['aggregate']
    path = f'/os-aggregates/{aggregate["id"]}'
    operator.api.request('POST', f'{path}/action', {'add_host': {'host': 'peer-1'}})
    node = f'/resource_providers/{operator.nodes["peer-1"]}/aggregates'
    known = operator.placement.get(node)
    assert known['aggregates'] == [aggregate['uuid']]
    operator.placement.put(node, known | {'aggregates': []})
    operator.run('nova-manage placement sync_aggregates')
    assert operator.placement.get(node)['aggregates'] == [aggregate['uuid']]
    operator.api.request('POST', f'{path}/action', {'remove_host': {'host': 'peer-1'}})
    operator.api.request('DELETE', path)


@cases(
    'code, change, after',
    ('disabled', Code.DISABLED, {'status': 'disabled'}, ('enabled', False)),
    ('disabled', Code.SERVICE_DISABLED, {'status': 'disabled'}, ('enabled', False)),
    ('down', Code.SERVICE_FORCED_DOWN, {'forced_down': True}, ('enabled', False)),
)
def test_advised_command_brings_a_service_back(operator, code, change, after):
    operator.api.set_service('peer-3', **change)
    (printed,) = re.findall('openstack [^.]+', advice.ADVICE[code])
    operator.run(printed.replace('HOST', 'peer-3'))
    (service,) = operator.api.services(host='peer-3')
    assert (service['status'], service['forced_down']) == after
