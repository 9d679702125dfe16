# SPDX-License-Identifier: Apache-2.0
"""The tables of nova that scheduling reads or writes, as nova declares them.

``API`` holds those of the API database, ``CELL`` those of a cell's database;
names, types, keys and nullability are nova's on each back-end.
"""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.columns import (
    Address,
    MediumText,
    amount,
    flag,
    identity,
    soft_stamps,
    stamps,
    string,
    table,
    uuid,
)

API = sa.MetaData()
CELL = sa.MetaData()

cell_mappings = table(
    'cell_mappings',
    API,
    *stamps(),
    identity(),
    uuid(),
    string('name'),
    sa.Column('transport_url', sa.Text),
    sa.Column('database_connection', sa.Text),
    flag('disabled'),
    sa.UniqueConstraint('uuid', name='uniq_cell_mappings0uuid'),
    sa.Index('uuid_idx', 'uuid'),
)

host_mappings = table(
    'host_mappings',
    API,
    *stamps(),
    identity(),
    sa.Column('cell_id', sa.ForeignKey('cell_mappings.id'), nullable=False),
    string('host', nullable=False),
    sa.UniqueConstraint('host', name='uniq_host_mappings0host'),
    sa.Index('host_idx', 'host'),
)

aggregates = table(
    'aggregates',
    API,
    *stamps(),
    identity(),
    uuid(nullable=True),
    string('name'),
    sa.UniqueConstraint('name', name='uniq_aggregate0name'),
    sa.Index('aggregate_uuid_idx', 'uuid'),
)

aggregate_hosts = table(
    'aggregate_hosts',
    API,
    *stamps(),
    identity(),
    string('host'),
    sa.Column('aggregate_id', sa.ForeignKey('aggregates.id'), nullable=False),
    sa.UniqueConstraint(
        'host', 'aggregate_id', name='uniq_aggregate_hosts0host0aggregate_id'
    ),
)

aggregate_metadata = table(
    'aggregate_metadata',
    API,
    *stamps(),
    identity(),
    sa.Column('aggregate_id', sa.ForeignKey('aggregates.id'), nullable=False),
    string('key', nullable=False),
    string('value', nullable=False),
    sa.UniqueConstraint(
        'aggregate_id', 'key', name='uniq_aggregate_metadata0aggregate_id0key'
    ),
    sa.Index('aggregate_metadata_key_idx', 'key'),
)

services = table(
    'services',
    CELL,
    *soft_stamps(),
    identity(),
    string('host'),
    string('binary'),
    string('topic'),
    amount('report_count', nullable=False),
    flag('disabled'),
    amount('deleted'),
    string('disabled_reason'),
    sa.Column('last_seen_up', sa.DateTime),
    flag('forced_down'),
    amount('version'),
    uuid(nullable=True),
    sa.UniqueConstraint(
        'host', 'topic', 'deleted', name='uniq_services0host0topic0deleted'
    ),
    sa.UniqueConstraint(
        'host', 'binary', 'deleted', name='uniq_services0host0binary0deleted'
    ),
    sa.Index('services_uuid_idx', 'uuid', unique=True),
)

compute_nodes = table(
    'compute_nodes',
    CELL,
    *soft_stamps(),
    identity(),
    amount('service_id'),
    amount('vcpus', nullable=False),
    amount('memory_mb', nullable=False),
    amount('local_gb', nullable=False),
    amount('vcpus_used', nullable=False),
    amount('memory_mb_used', nullable=False),
    amount('local_gb_used', nullable=False),
    sa.Column('hypervisor_type', MediumText, nullable=False),
    amount('hypervisor_version', nullable=False),
    sa.Column('cpu_info', MediumText, nullable=False),
    amount('disk_available_least'),
    amount('free_ram_mb'),
    amount('free_disk_gb'),
    amount('current_workload'),
    amount('running_vms'),
    string('hypervisor_hostname'),
    amount('deleted'),
    sa.Column('host_ip', Address),
    sa.Column('supported_instances', sa.Text),
    sa.Column('pci_stats', sa.Text),
    sa.Column('metrics', sa.Text),
    sa.Column('extra_resources', sa.Text),
    sa.Column('stats', sa.Text),
    sa.Column('numa_topology', sa.Text),
    string('host'),
    sa.Column('ram_allocation_ratio', sa.Float),
    sa.Column('cpu_allocation_ratio', sa.Float),
    uuid(nullable=True),
    sa.Column('disk_allocation_ratio', sa.Float),
    amount('mapped'),
    sa.UniqueConstraint(
        'host',
        'hypervisor_hostname',
        'deleted',
        name='uniq_compute_nodes0host0hypervisor_hostname0deleted',
    ),
    sa.Index('compute_nodes_uuid_idx', 'uuid', unique=True),
)

instances = table(
    'instances',
    CELL,
    *soft_stamps(),
    identity(),
    amount('internal_id'),
    string('user_id'),
    string('project_id'),
    string('image_ref'),
    string('kernel_id'),
    string('ramdisk_id'),
    amount('launch_index'),
    string('key_name'),
    sa.Column('key_data', MediumText),
    amount('power_state'),
    string('vm_state'),
    amount('memory_mb'),
    amount('vcpus'),
    string('hostname'),
    string('host'),
    sa.Column('user_data', MediumText),
    string('reservation_id'),
    sa.Column('launched_at', sa.DateTime),
    sa.Column('terminated_at', sa.DateTime),
    string('display_name'),
    string('display_description'),
    string('availability_zone'),
    flag('locked'),
    string('os_type'),
    sa.Column('launched_on', MediumText),
    amount('instance_type_id'),
    string('vm_mode'),
    uuid(),
    string('architecture'),
    string('root_device_name'),
    sa.Column('access_ip_v4', Address),
    sa.Column('access_ip_v6', Address),
    string('config_drive'),
    string('task_state'),
    string('default_ephemeral_device'),
    string('default_swap_device'),
    amount('progress'),
    flag('auto_disk_config'),
    flag('shutdown_terminate'),
    flag('disable_terminate'),
    amount('root_gb'),
    amount('ephemeral_gb'),
    string('cell_name'),
    string('node'),
    amount('deleted'),
    sa.Column('locked_by', sa.Enum('owner', 'admin', name='instances0locked_by')),
    amount('cleaned'),
    uuid('ephemeral_key_uuid', nullable=True),
    flag('hidden'),
    sa.Column('compute_id', sa.BigInteger),
    sa.UniqueConstraint('uuid', name='uniq_instances0uuid'),
    sa.Index('instances_task_state_updated_at_idx', 'task_state', 'updated_at'),
    sa.Index('instances_uuid_deleted_idx', 'uuid', 'deleted'),
    sa.Index('instances_updated_at_project_id_idx', 'updated_at', 'project_id'),
    sa.Index('instances_host_node_deleted_idx', 'host', 'node', 'deleted'),
    sa.Index('instances_project_id_idx', 'project_id'),
    sa.Index('instances_host_deleted_cleaned_idx', 'host', 'deleted', 'cleaned'),
    sa.Index('instances_reservation_id_idx', 'reservation_id'),
    sa.Index('instances_project_id_deleted_idx', 'project_id', 'deleted'),
    sa.Index('instances_deleted_created_at_idx', 'deleted', 'created_at'),
    sa.Index('instances_terminated_at_launched_at_idx', 'terminated_at', 'launched_at'),
    sa.Index('instances_compute_id_deleted_idx', 'compute_id', 'deleted'),
)

instance_system_metadata = table(
    'instance_system_metadata',
    CELL,
    *soft_stamps(),
    identity(),
    sa.Column('instance_uuid', sa.ForeignKey('instances.uuid'), nullable=False),
    string('key', nullable=False),
    string('value'),
    amount('deleted'),
)
