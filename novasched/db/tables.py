# SPDX-License-Identifier: Apache-2.0
"""The tables of nova that scheduling reads or writes, as nova declares them.

``API`` holds those of the API database, ``CELL`` those of a cell's database;
names, types, keys and nullability are nova's on each back-end.
"""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.columns import Address, MediumText
from novasched.db.columns import amount as _amount
from novasched.db.columns import flag as _flag
from novasched.db.columns import identity as _id
from novasched.db.columns import soft_stamps as _soft_stamps
from novasched.db.columns import stamps as _stamps
from novasched.db.columns import string as _string
from novasched.db.columns import table as _table
from novasched.db.columns import uuid as _uuid

API = sa.MetaData()
CELL = sa.MetaData()

cell_mappings = _table(
    'cell_mappings',
    API,
    *_stamps(),
    _id(),
    _uuid(),
    _string('name'),
    sa.Column('transport_url', sa.Text),
    sa.Column('database_connection', sa.Text),
    _flag('disabled'),
    sa.UniqueConstraint('uuid', name='uniq_cell_mappings0uuid'),
    sa.Index('uuid_idx', 'uuid'),
)

host_mappings = _table(
    'host_mappings',
    API,
    *_stamps(),
    _id(),
    sa.Column('cell_id', sa.ForeignKey('cell_mappings.id'), nullable=False),
    _string('host', nullable=False),
    sa.UniqueConstraint('host', name='uniq_host_mappings0host'),
    sa.Index('host_idx', 'host'),
)

aggregates = _table(
    'aggregates',
    API,
    *_stamps(),
    _id(),
    _uuid(nullable=True),
    _string('name'),
    sa.UniqueConstraint('name', name='uniq_aggregate0name'),
    sa.Index('aggregate_uuid_idx', 'uuid'),
)

aggregate_hosts = _table(
    'aggregate_hosts',
    API,
    *_stamps(),
    _id(),
    _string('host'),
    sa.Column('aggregate_id', sa.ForeignKey('aggregates.id'), nullable=False),
    sa.UniqueConstraint(
        'host', 'aggregate_id', name='uniq_aggregate_hosts0host0aggregate_id'
    ),
)

aggregate_metadata = _table(
    'aggregate_metadata',
    API,
    *_stamps(),
    _id(),
    sa.Column('aggregate_id', sa.ForeignKey('aggregates.id'), nullable=False),
    _string('key', nullable=False),
    _string('value', nullable=False),
    sa.UniqueConstraint(
        'aggregate_id', 'key', name='uniq_aggregate_metadata0aggregate_id0key'
    ),
    sa.Index('aggregate_metadata_key_idx', 'key'),
)

instance_groups = _table(
    'instance_groups',
    API,
    *_stamps(),
    _id(),
    _string('user_id'),
    _string('project_id'),
    _uuid(),
    _string('name'),
    sa.UniqueConstraint('uuid', name='uniq_instance_groups0uuid'),
)

instance_group_policy = _table(
    'instance_group_policy',
    API,
    *_stamps(),
    _id(),
    _string('policy'),
    sa.Column('group_id', sa.ForeignKey('instance_groups.id'), nullable=False),
    sa.Column('rules', sa.Text),
    sa.Index('instance_group_policy_policy_idx', 'policy'),
)

instance_group_member = _table(
    'instance_group_member',
    API,
    *_stamps(),
    _id(),
    _string('instance_uuid'),
    sa.Column('group_id', sa.ForeignKey('instance_groups.id'), nullable=False),
    sa.Index('instance_group_member_instance_idx', 'instance_uuid'),
)

services = _table(
    'services',
    CELL,
    *_soft_stamps(),
    _id(),
    _string('host'),
    _string('binary'),
    _string('topic'),
    _amount('report_count', nullable=False),
    _flag('disabled'),
    _amount('deleted'),
    _string('disabled_reason'),
    sa.Column('last_seen_up', sa.DateTime),
    _flag('forced_down'),
    _amount('version'),
    _uuid(nullable=True),
    sa.UniqueConstraint(
        'host', 'topic', 'deleted', name='uniq_services0host0topic0deleted'
    ),
    sa.UniqueConstraint(
        'host', 'binary', 'deleted', name='uniq_services0host0binary0deleted'
    ),
    sa.Index('services_uuid_idx', 'uuid', unique=True),
)

compute_nodes = _table(
    'compute_nodes',
    CELL,
    *_soft_stamps(),
    _id(),
    _amount('service_id'),
    _amount('vcpus', nullable=False),
    _amount('memory_mb', nullable=False),
    _amount('local_gb', nullable=False),
    _amount('vcpus_used', nullable=False),
    _amount('memory_mb_used', nullable=False),
    _amount('local_gb_used', nullable=False),
    sa.Column('hypervisor_type', MediumText, nullable=False),
    _amount('hypervisor_version', nullable=False),
    sa.Column('cpu_info', MediumText, nullable=False),
    _amount('disk_available_least'),
    _amount('free_ram_mb'),
    _amount('free_disk_gb'),
    _amount('current_workload'),
    _amount('running_vms'),
    _string('hypervisor_hostname'),
    _amount('deleted'),
    sa.Column('host_ip', Address),
    sa.Column('supported_instances', sa.Text),
    sa.Column('pci_stats', sa.Text),
    sa.Column('metrics', sa.Text),
    sa.Column('extra_resources', sa.Text),
    sa.Column('stats', sa.Text),
    sa.Column('numa_topology', sa.Text),
    _string('host'),
    sa.Column('ram_allocation_ratio', sa.Float),
    sa.Column('cpu_allocation_ratio', sa.Float),
    _uuid(nullable=True),
    sa.Column('disk_allocation_ratio', sa.Float),
    _amount('mapped'),
    sa.UniqueConstraint(
        'host',
        'hypervisor_hostname',
        'deleted',
        name='uniq_compute_nodes0host0hypervisor_hostname0deleted',
    ),
    sa.Index('compute_nodes_uuid_idx', 'uuid', unique=True),
)

instances = _table(
    'instances',
    CELL,
    *_soft_stamps(),
    _id(),
    _amount('internal_id'),
    _string('user_id'),
    _string('project_id'),
    _string('image_ref'),
    _string('kernel_id'),
    _string('ramdisk_id'),
    _amount('launch_index'),
    _string('key_name'),
    sa.Column('key_data', MediumText),
    _amount('power_state'),
    _string('vm_state'),
    _amount('memory_mb'),
    _amount('vcpus'),
    _string('hostname'),
    _string('host'),
    sa.Column('user_data', MediumText),
    _string('reservation_id'),
    sa.Column('launched_at', sa.DateTime),
    sa.Column('terminated_at', sa.DateTime),
    _string('display_name'),
    _string('display_description'),
    _string('availability_zone'),
    _flag('locked'),
    _string('os_type'),
    sa.Column('launched_on', MediumText),
    _amount('instance_type_id'),
    _string('vm_mode'),
    _uuid(),
    _string('architecture'),
    _string('root_device_name'),
    sa.Column('access_ip_v4', Address),
    sa.Column('access_ip_v6', Address),
    _string('config_drive'),
    _string('task_state'),
    _string('default_ephemeral_device'),
    _string('default_swap_device'),
    _amount('progress'),
    _flag('auto_disk_config'),
    _flag('shutdown_terminate'),
    _flag('disable_terminate'),
    _amount('root_gb'),
    _amount('ephemeral_gb'),
    _string('cell_name'),
    _string('node'),
    _amount('deleted'),
    sa.Column('locked_by', sa.Enum('owner', 'admin', name='instances0locked_by')),
    _amount('cleaned'),
    _uuid('ephemeral_key_uuid', nullable=True),
    _flag('hidden'),
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

instance_system_metadata = _table(
    'instance_system_metadata',
    CELL,
    *_soft_stamps(),
    _id(),
    sa.Column('instance_uuid', sa.ForeignKey('instances.uuid'), nullable=False),
    _string('key', nullable=False),
    _string('value'),
    _amount('deleted'),
)
