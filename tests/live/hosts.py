# SPDX-License-Identifier: Apache-2.0
"""The hosts of the cloud under test, and their rows as nova-compute writes them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import uuid

from tests.differential.primitives import primitive

SERVICE_VERSION = 74


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host with one node; more vCPUs come with more memory and disk."""

    name: str
    cell: str
    zone: str
    vcpus: int
    disabled: bool = False
    down: bool = False

    @property
    def node(self):
        """The hypervisor's host name."""
        return f'{self.name}.example.org'

    @property
    def uuid(self):
        """The uuid of the compute node and of its root provider."""
        return name_uuid(self.name)

    @property
    def memory_mb(self):
        """Memory, in MiB."""
        return self.vcpus * 4096

    @property
    def disk_gb(self):
        """Local disk, in GiB."""
        return self.vcpus * 25


# Every weigher prefers the host with the lower number; what must not be chosen
# is the largest.
HOSTS = (
    Host('node-1', 'cell1', 'az1', 32),
    Host('node-2', 'cell1', 'az1', 28),
    Host('node-3', 'cell1', 'az2', 24),
    Host('node-4', 'cell1', 'az2', 20),
    Host('node-5', 'cell2', 'az3', 16),
    Host('node-6', 'cell2', 'az3', 12),
    Host('node-disabled', 'cell1', 'az1', 40, disabled=True),
    Host('node-down', 'cell2', 'az3', 40, down=True),
)
ZONES = ('az1', 'az2', 'az3')


def name_uuid(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}.live.example.org'))


def now():
    """The time of database rows: UTC, whole seconds, no zone."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)


def service_row(host):
    seen = now() - datetime.timedelta(hours=2 if host.down else 0)
    return {
        'created_at': now(),
        'updated_at': seen,
        'deleted': 0,
        'host': host.name,
        'binary': 'nova-compute',
        'topic': 'compute',
        'report_count': 100,
        'disabled': host.disabled,
        'forced_down': False,
        'last_seen_up': seen,
        'version': SERVICE_VERSION,
        'uuid': name_uuid(f'service.{host.name}'),
    }


def compute_node_row(host):
    """The row as nova-compute with libvirt writes it, without any instance."""
    return {
        'created_at': now(),
        'updated_at': now(),
        'deleted': 0,
        'host': host.name,
        'hypervisor_hostname': host.node,
        'uuid': host.uuid,
        'vcpus': host.vcpus,
        'vcpus_used': 0,
        'memory_mb': host.memory_mb,
        'memory_mb_used': 0,
        'free_ram_mb': host.memory_mb,
        'local_gb': host.disk_gb,
        'local_gb_used': 0,
        'free_disk_gb': host.disk_gb,
        'disk_available_least': host.disk_gb,
        'current_workload': 0,
        'running_vms': 0,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002002,
        'host_ip': '192.0.2.10',
        'cpu_info': json.dumps(
            {
                'arch': 'x86_64',
                'model': 'Skylake-Server-IBRS',
                'vendor': 'Intel',
                'topology': {
                    'cells': 1,
                    'sockets': 1,
                    'cores': host.vcpus // 2,
                    'threads': 2,
                },
                'features': ['avx2', 'aes', 'vmx'],
            }
        ),
        'supported_instances': json.dumps(
            [
                ['i686', 'kvm', 'hvm'],
                ['x86_64', 'qemu', 'hvm'],
                ['x86_64', 'kvm', 'hvm'],
            ]
        ),
        'pci_stats': json.dumps(primitive('PciDevicePoolList', '1.1', objects=[])),
        'stats': json.dumps({'failed_builds': '0', 'num_instances': '0'}),
        'metrics': '[]',
        'numa_topology': json.dumps(_numa_topology(host)),
        'cpu_allocation_ratio': 1.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'mapped': 1,
    }


def _numa_topology(host):
    cores = host.vcpus // 2
    pages = primitive(
        'NUMAPagesTopology',
        '1.1',
        size_kb=4,
        total=host.memory_mb * 256,
        used=0,
        reserved=0,
    )
    cell = primitive(
        'NUMACell',
        '1.5',
        id=0,
        socket=0,
        cpuset=list(range(host.vcpus)),
        pcpuset=[],
        memory=host.memory_mb,
        cpu_usage=0,
        memory_usage=0,
        pinned_cpus=[],
        siblings=[[core, core + cores] for core in range(cores)],
        mempages=[pages],
        network_metadata=primitive(
            'NetworkMetadata', '1.0', physnets=[], tunneled=False
        ),
    )
    return primitive('NUMATopology', '1.2', cells=[cell])
