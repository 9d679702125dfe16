# SPDX-License-Identifier: Apache-2.0
"""Tables of nova that only conductors, computes and the API use, as nova has them.

Keys and indexes of the tables that schedulers use are here, too.
"""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.server_tables import (
    flavor_extra_specs,
    flavors,
    instance_extra,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instance_mappings,
    request_specs,
)
from novasched.db.tables import API, CELL, table

__all__ = [
    'API',
    'CELL',
    'build_requests',
    'flavor_extra_specs',
    'flavors',
    'instance_actions',
    'instance_extra',
    'instance_faults',
    'instance_group_member',
    'instance_group_policy',
    'instance_groups',
    'instance_mappings',
    'migrations',
    'request_specs',
]

_TABLES = {**API.tables, **CELL.tables}


def _unique(table: str, name: str, *columns: str) -> None:
    found = _TABLES[table].c
    sa.UniqueConstraint(*(found[column] for column in columns), name=name)


def _index(table: str, name: str, *columns: str, unique: bool = False) -> None:
    found = _TABLES[table].c
    sa.Index(name, *(found[column] for column in columns), unique=unique)


_unique('cell_mappings', 'uniq_cell_mappings0uuid', 'uuid')
_index('cell_mappings', 'uuid_idx', 'uuid')
_unique('host_mappings', 'uniq_host_mappings0host', 'host')
_index('host_mappings', 'host_idx', 'host')
_unique('aggregates', 'uniq_aggregate0name', 'name')
_index('aggregates', 'aggregate_uuid_idx', 'uuid')
_unique(
    'aggregate_hosts', 'uniq_aggregate_hosts0host0aggregate_id', 'host', 'aggregate_id'
)
_unique(
    'aggregate_metadata',
    'uniq_aggregate_metadata0aggregate_id0key',
    'aggregate_id',
    'key',
)
_index('aggregate_metadata', 'aggregate_metadata_key_idx', 'key')
_unique('services', 'uniq_services0host0topic0deleted', 'host', 'topic', 'deleted')
_unique('services', 'uniq_services0host0binary0deleted', 'host', 'binary', 'deleted')
_index('services', 'services_uuid_idx', 'uuid', unique=True)
_unique(
    'compute_nodes',
    'uniq_compute_nodes0host0hypervisor_hostname0deleted',
    'host',
    'hypervisor_hostname',
    'deleted',
)
_index('compute_nodes', 'compute_nodes_uuid_idx', 'uuid', unique=True)
_unique('instances', 'uniq_instances0uuid', 'uuid')
_index('instances', 'instances_task_state_updated_at_idx', 'task_state', 'updated_at')
_index('instances', 'instances_uuid_deleted_idx', 'uuid', 'deleted')
_index('instances', 'instances_updated_at_project_id_idx', 'updated_at', 'project_id')
_index('instances', 'instances_host_node_deleted_idx', 'host', 'node', 'deleted')
_index('instances', 'instances_project_id_idx', 'project_id')
_index('instances', 'instances_host_deleted_cleaned_idx', 'host', 'deleted', 'cleaned')
_index('instances', 'instances_reservation_id_idx', 'reservation_id')
_index('instances', 'instances_project_id_deleted_idx', 'project_id', 'deleted')
_index('instances', 'instances_deleted_created_at_idx', 'deleted', 'created_at')
_index(
    'instances',
    'instances_terminated_at_launched_at_idx',
    'terminated_at',
    'launched_at',
)
_index('instances', 'instances_compute_id_deleted_idx', 'compute_id', 'deleted')


build_requests = table(
    API,
    'build_requests',
    'id key!, project_id string!, instance_uuid uuid, instance mediumtext,'
    'block_device_mappings mediumtext, tags text',
    sa.UniqueConstraint('instance_uuid', name='uniq_build_requests0instance_uuid'),
    sa.Index('build_requests_project_id_idx', 'project_id'),
)

instance_faults = table(
    CELL,
    'instance_faults',
    'id key!, instance_uuid instances.uuid, code int!, message string,'
    'details mediumtext, host string, deleted int',
    sa.Index(
        'instance_faults_instance_uuid_deleted_created_at_idx',
        'instance_uuid',
        'deleted',
        'created_at',
    ),
)

instance_actions = table(
    CELL,
    'instance_actions',
    'id key!, action string, instance_uuid instances.uuid, request_id string,'
    'user_id string, project_id string, start_time datetime, finish_time datetime,'
    'message string, deleted int',
    sa.Index(
        'instance_actions_instance_uuid_updated_at_idx', 'instance_uuid', 'updated_at'
    ),
)

migrations = table(
    CELL,
    'migrations',
    'id key!, source_compute string, dest_compute string, dest_host string,'
    'status string, instance_uuid instances.uuid, old_instance_type_id int,'
    'new_instance_type_id int, source_node string, dest_node string, deleted int,'
    'migration_type migration, hidden boolean, memory_total bigint,'
    'memory_processed bigint, memory_remaining bigint, disk_total bigint,'
    'disk_processed bigint, disk_remaining bigint, uuid uuid,'
    'cross_cell_move boolean, user_id string, project_id string,'
    'dest_compute_id bigint',
    sa.Index(
        'migrations_instance_uuid_and_status_idx', 'deleted', 'instance_uuid', 'status'
    ),
    sa.Index('migrations_uuid', 'uuid', unique=True),
    migration=sa.Enum(
        'migration', 'resize', 'live-migration', 'evacuation', name='migration_type'
    ),
)
