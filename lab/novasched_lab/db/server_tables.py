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
    instance_faults,
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

_KEYS = """
cell_mappings uniq_cell_mappings0uuid uuid
cell_mappings uuid_idx uuid
host_mappings uniq_host_mappings0host host
host_mappings host_idx host
aggregates uniq_aggregate0name name
aggregates aggregate_uuid_idx uuid
aggregate_hosts uniq_aggregate_hosts0host0aggregate_id host aggregate_id
aggregate_metadata uniq_aggregate_metadata0aggregate_id0key aggregate_id key
aggregate_metadata aggregate_metadata_key_idx key
services uniq_services0host0topic0deleted host topic deleted
services uniq_services0host0binary0deleted host binary deleted
services services_uuid_idx uuid
compute_nodes uniq_compute_nodes0host0hypervisor_hostname0deleted \
    host hypervisor_hostname deleted
compute_nodes compute_nodes_uuid_idx uuid
instances uniq_instances0uuid uuid
instances instances_task_state_updated_at_idx task_state updated_at
instances instances_uuid_deleted_idx uuid deleted
instances instances_updated_at_project_id_idx updated_at project_id
instances instances_host_node_deleted_idx host node deleted
instances instances_project_id_idx project_id
instances instances_host_deleted_cleaned_idx host deleted cleaned
instances instances_reservation_id_idx reservation_id
instances instances_project_id_deleted_idx project_id deleted
instances instances_deleted_created_at_idx deleted created_at
instances instances_terminated_at_launched_at_idx terminated_at launched_at
instances instances_compute_id_deleted_idx compute_id deleted
"""
"""A table, a key and its columns; a key that begins with uniq_ is a constraint."""
_UNIQUE = ('services_uuid_idx', 'compute_nodes_uuid_idx')

for _line in _KEYS.strip().split('\n'):
    _table, _key, *_names = _line.split()
    _columns = [{**API.tables, **CELL.tables}[_table].c[name] for name in _names]
    if _key.startswith('uniq_'):
        sa.UniqueConstraint(*_columns, name=_key)
    else:
        sa.Index(_key, *_columns, unique=_key in _UNIQUE)

build_requests = table(
    API,
    'build_requests',
    'id key!, project_id string!, instance_uuid uuid, instance mediumtext,'
    'block_device_mappings mediumtext, tags text',
    sa.UniqueConstraint('instance_uuid', name='uniq_build_requests0instance_uuid'),
    sa.Index('build_requests_project_id_idx', 'project_id'),
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
