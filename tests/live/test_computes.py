# SPDX-License-Identifier: Apache-2.0
"""Computes of ours on real servers: many hosts on one connection, killed and started.

The test plays the conductor, with the client that the conductor has.
"""

from __future__ import annotations

import configparser
import uuid
from collections import Counter

import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched_lab import opts
from novasched_lab.compute.fleet import name_uuid
from novasched_lab.store.stores import CellServers
from novasched_lab.wire import ComputeClient
from tests import factories
from tests.live.daemon import own_program
from tests.live.servers.process import Process, run, wait_until

HOSTS = [f'c{number}' for number in range(1, 6)]
FLEET = """
[[hosts]]
name = "c{}"
count = 5
vcpus = 16
memory_mb = 65536
disk_gb = 1000
"""
START_S = 60

pytestmark = pytest.mark.ours


class Computes:
    """A cell, and the program whose hosts it has."""

    def __init__(self, scratch, rabbitmq, mariadb, placement, keystone):
        self.url = rabbitmq.create_vhost()
        self.context = RequestContext(
            user_id='user', project_id='project', overwrite=False
        )
        self._rabbitmq = rabbitmq
        self.placement = placement
        self._dir = scratch / 'computes'
        self._dir.mkdir()
        database = mariadb.create_database(f'computes_{uuid.uuid4().hex[:8]}')
        self._conf = self._write(database, keystone)
        run([own_program('novasched-manage'), '--config-file', self._conf, 'db',
             'sync', '--local_cell'])  # fmt: skip
        self.engine = sa.create_engine(database)
        self.servers = CellServers(self.engine)
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[])
        self._transport = oslo_messaging.get_rpc_transport(conf, self.url)
        self.client = ComputeClient(self._transport)
        self.process = None

    def _write(self, database, keystone):
        (self._dir / 'fleet.toml').write_text(FLEET)
        parser = configparser.RawConfigParser(default_section='')
        parser['DEFAULT'] = {
            'transport_url': self.url,
            'update_resources_interval': '1',
            'state_path': str(self._dir),
        }
        parser['database'] = {'connection': database}
        parser['novasched'] = {'build_grace': '2'}
        parser['placement'] = {
            'auth_type': 'password',
            'auth_url': keystone.url,
            'username': 'nova',
            'password': 'placement-secret',
            'project_name': 'service',
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
            'region_name': 'RegionOne',
        }
        path = self._dir / 'nova.conf'
        with path.open('w') as file:
            parser.write(file)
        return path

    def start(self):
        """Run the program; wait until all its hosts can be reached."""
        self.process = Process(
            [own_program('novasched-compute'), '--config-file', self._conf,
             '--fleet', self._dir / 'fleet.toml'],
            self._dir / 'compute.log',
        )  # fmt: skip
        wait_until(self._listens, START_S, 'the computes', self.process)

    def _listens(self):
        found = [self._rabbitmq.queue(self.url, f'compute.{host}') for host in HOSTS]
        return all(queue is not None and queue[1] for queue in found)

    def close(self):
        self.process.stop()
        self._transport.cleanup()
        self.engine.dispose()
        for host in HOSTS:
            path = f'/resource_providers/{name_uuid("node", host)}'
            self.placement.request('DELETE', path)

    def build(self, host):
        """Make an instance that is claimed on a host, and send it there."""
        made = str(uuid.uuid4())
        request = factories.request(instance_uuid=made, image={}, is_bfv=False)
        self.servers.create(
            Instance(
                uuid=made,
                project_id='project',
                user_id='user',
                vm_state='building',
                task_state='scheduling',
                vcpus=1,
                memory_mb=512,
                root_gb=1,
                ephemeral_gb=0,
                flavor=request.flavor,
                system_metadata={},
            )
        )
        resources = {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}
        allocations = {name_uuid('node', host): {'resources': resources}}
        self.placement.put(
            f'/allocations/{made}',
            {
                'allocations': allocations,
                'project_id': 'project',
                'user_id': 'user',
                'consumer_generation': None,
            },
        )
        self.client.build_and_run_instance(
            self.context,
            host,
            instance=Instance(uuid=made),
            request_spec=request,
            filter_properties={},
            node=host,
            limits=None,
            host_list=[],
        )
        return made

    def delete(self, made):
        now = self.servers.instance(made)
        host = now.host or now.launched_on or HOSTS[0]
        self.client.terminate_instance(self.context, host, now)

    def state(self, made):
        now = self.servers.instance(made)
        return None if now is None else now.vm_state


@pytest.fixture
def computes(scratch, rabbitmq, mariadb, placement, keystone):
    made = Computes(scratch, rabbitmq, mariadb, placement, keystone)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_killed_in_the_middle(computes, eventually):
    """What was under way ends; what runs is where placement says; all can go."""
    before = [computes.build(host) for host in HOSTS]
    eventually(
        lambda: {computes.state(made) for made in before} == {'active'}, 'active'
    )
    assert Counter(each.host for each in computes.servers.instances(before)) == Counter(
        HOSTS
    )
    after = [computes.build(host) for host in HOSTS * 4]
    computes.process.kill()
    computes.start()
    ended = eventually(lambda: _ended(computes, after), 'built, or in error', 60)
    for made, state in ended.items():
        held = computes.placement.get(f'/allocations/{made}')['allocations']
        now = computes.servers.instance(made)
        assert bool(held) == (state == 'active')
        assert state == 'active' or computes.servers.last_fault(made)
        assert not held or list(held) == [name_uuid('node', now.host)]
    for made in (*before, *after):
        computes.delete(made)
    eventually(
        lambda: not any(computes.state(made) for made in (*before, *after)), 'deleted'
    )
    eventually(lambda: not computes.placement.consumers(), 'nothing is held')


def _ended(computes, uuids):
    states = {made: computes.state(made) for made in uuids}
    return states if set(states.values()) <= {'active', 'error'} else None
