# SPDX-License-Identifier: Apache-2.0
"""A cloud in which ten boots fail, each for a cause of its own."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import NamedTuple

from novasched.inspection.session.catalogue import flavor_of
from novasched.objects.context import RequestContext
from novasched_lab.api import boot, service
from novasched_lab.api.boot import Order
from tests.live.daemon import own_program
from tests.live.flow import running
from tests.live.hosts import name_uuid, now
from tests.live.servers.process import completed

HOSTS = (
    *(f'rack-{n}' for n in (1, 2, 3, 4)),
    *(f'numa-{n}' for n in (1, 2)),
    *(f'off-{n}' for n in (1, 2)),
    *(f'lab-{n}' for n in (1, 2)),
    *(f'far-{n}' for n in (1, 2)),
)
IN_THE_FIRST_CELL = """
[[hosts]]
name = "rack-{}"
count = 4
cell = "cell1"
zone = "az1"
vcpus = 8
memory_mb = 16384
disk_gb = 100

[[hosts]]
name = "numa-{}"
count = 2
cell = "cell1"
zone = "az1"
vcpus = 16
memory_mb = 16384
disk_gb = 100
numa_nodes = 2
threads = 1
dedicated_cpus = "4-7,12-15"
pages = {1048576 = 2}

[[hosts.devices]]
vendor_id = "10de"
product_id = "20b5"
count = 2

[[hosts]]
name = "off-{}"
count = 2
cell = "cell1"
zone = "az2"
vcpus = 8
memory_mb = 16384
disk_gb = 100
traits = ["COMPUTE_STATUS_DISABLED"]

[[hosts]]
name = "lab-{}"
count = 2
cell = "cell1"
zone = "az3"
vcpus = 8
memory_mb = 16384
disk_gb = 100
"""
IN_THE_SECOND_CELL = """
[[hosts]]
name = "far-{}"
count = 2
cell = "cell2"
zone = "az4"
vcpus = 8
memory_mb = 16384
disk_gb = 100
"""
ALIAS = {'name': 'gpu', 'vendor_id': '10de', 'product_id': '20b5'}
OPTIONS = {
    'novasched': {
        'check_interval': 1,
        'no_valid_host_detail': 'admin',
        'outage_patience': 0,
    },
    'filter_scheduler': {
        'enabled_filters': 'ComputeFilter,ComputeCapabilitiesFilter,'
        'ImagePropertiesFilter,ServerGroupAntiAffinityFilter,'
        'ServerGroupAffinityFilter,AggregateMultiTenancyIsolation,'
        'NUMATopologyFilter,PciPassthroughFilter'
    },
    'pci': {'alias': json.dumps(ALIAS)},
}
TENANT, USER = 'research', 'shop'
"""The project for which zone az3 is kept, and the one whose boots fail."""
END_S = 60


def flavor(name, vcpus=1, memory_mb=512, **extra_specs):
    """A flavor; of a name of an extra spec, ':' is written '__'."""
    specs = {key.replace('__', ':'): value for key, value in extra_specs.items()}
    sizes = flavor_of(f'vcpus={vcpus},ram={memory_mb},disk=1')
    return sizes.replaced(name=name, flavorid=name, extra_specs=specs)


SMALL = flavor('m1.small')
ORDINARY = flavor('m1.medium', vcpus=2, memory_mb=4096)


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    text: str
    errors: str
    code: int


@dataclass
class FailingCloud:
    """The programs, and a user of the cloud."""

    flow: object
    api: object
    booted: list = field(default_factory=list)

    def boot(self, name, flavor=SMALL, project=USER, group=None, **order):
        """Ask for servers, as the API does; give their uuids."""
        context = RequestContext(overwrite=False, user_id='user', project_id=project)
        if group is not None:
            group = boot.group_for(self.api, context, group, 'anti-affinity')
        image = {'id': name_uuid('image'), 'properties': {}}
        wanted = Order(name, flavor, image, group=group, **order)
        return list(boot.boot(self.api, context, wanted))

    def runs(self, *names, **order):
        """Boot servers; tell whether all have started."""
        uuids = self.boot(*names, **order)
        running = [uuid for uuid in uuids if self._state(uuid) == 'active']
        self.booted += running
        return running == uuids

    def fail(self, name, **order):
        """Boot a server that must find no host; give its uuid."""
        (uuid,) = self.boot(name, **order)
        assert self._state(uuid) == 'error'
        assert self.flow.fault(uuid).message.startswith('No valid host was found.')
        return uuid

    def _state(self, uuid):
        return self.flow.ended(uuid, END_S).vm_state

    def novasched(self, *words):
        """Run a command as an operator does, in a terminal of 100 columns."""
        done = completed(
            [own_program('novasched'), *words, '--config-file', self.flow.conf_path],
            env={**os.environ, 'COLUMNS': '100'},
            timeout_s=END_S,
        )
        return Printed(done.stdout, done.stderr, done.returncode)

    def answer(self, *words):
        """The JSON that a command prints."""
        found = self.novasched(*words, '-f', 'json')
        assert found.code == 0, found.errors
        return json.loads(found.text)


def prepare(cloud):
    """Keep zone az3 for one project."""
    at = now()
    aggregate = {'created_at': at, 'id': 1, 'uuid': name_uuid('az3'), 'name': 'az3'}
    cloud.insert('api', 'aggregates', [aggregate])
    metadata = {'availability_zone': 'az3', 'filter_tenant_id': TENANT}
    cloud.insert(
        'api',
        'aggregate_metadata',
        [
            {'created_at': at, 'aggregate_id': 1, 'key': key, 'value': value}
            for key, value in metadata.items()
        ],
    )


@contextlib.contextmanager
def failing_cloud(directory, servers):
    """Run the cloud, with a server of 4 GiB on each host that takes one."""
    fleets = {'compute-1': IN_THE_FIRST_CELL, 'compute-2': IN_THE_SECOND_CELL}
    with (
        running(directory, servers, HOSTS, fleets, prepare=prepare, **OPTIONS) as flow,
        service.opened(service.configure([str(flow.conf_path)])) as api,
    ):
        for name in ('off-1', 'off-2'):
            flow.cloud.update('cell1', 'services', {'disabled': True}, host=name)
        made = FailingCloud(flow, api)
        assert made.runs('web', ORDINARY, count=6, zone='az1', group='apart')
        assert made.runs(
            'study', ORDINARY, project=TENANT, count=2, zone='az3', group='study'
        )
        assert made.runs('far', ORDINARY, count=2, zone='az4', group='far')
        yield made
        for uuid in made.booted:
            servers.placement.release(uuid)
