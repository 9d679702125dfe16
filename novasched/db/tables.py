# SPDX-License-Identifier: Apache-2.0
"""The tables of nova that scheduling reads or writes, as nova declares them.

``API`` holds the tables of the API database, ``CELL`` the tables of a cell's database.
Names, types and nullability are nova's on each back-end. Nova makes the tables, and
their keys and indexes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from novasched.db.transactions import Database

API = sa.MetaData()
CELL = sa.MetaData()

KINDS: dict[str, Any] = {
    'key': sa.Integer(),
    'int': sa.Integer(),
    'bigint': sa.BigInteger(),
    'float': sa.Float(),
    'boolean': sa.Boolean(),
    'datetime': sa.DateTime(),
    'string': sa.String(255),
    'uuid': sa.String(36),
    'text': sa.Text(),
    'mediumtext': sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb'),
    'address': sa.String(39).with_variant(postgresql.INET(), 'postgresql'),
}


def table(
    metadata: sa.MetaData, name: str, columns: str, *parts: Any, **kinds: Any
) -> sa.Table:
    """Return a table, transactional on MySQL too.

    ``columns`` are names, each with one of KINDS, one of ``kinds`` or the column that
    it is a foreign key to; ``!`` forbids null. The time stamps that every table of the
    database starts with are added.
    """
    stamps = ['created_at', 'updated_at', *(['deleted_at'] if metadata is CELL else [])]
    listed = [f'{stamp} datetime' for stamp in stamps] + columns.split(',')
    made = [_column(each, KINDS | kinds) for each in listed]
    return sa.Table(name, metadata, *made, *parts, mysql_engine='InnoDB')


def _column(declared: str, kinds: dict[str, Any]) -> sa.Column[Any]:
    name, kind = declared.split()
    plain = kind.removesuffix('!')
    return sa.Column(
        name,
        sa.ForeignKey(plain) if '.' in plain else kinds[plain],
        nullable=plain == kind,
        primary_key=plain == 'key',
    )


cell_mappings = table(
    API,
    'cell_mappings',
    'id key!, uuid uuid!, name string, transport_url text, database_connection text,'
    'disabled boolean',
)

host_mappings = table(
    API,
    'host_mappings',
    'id key!, cell_id cell_mappings.id!, host string!',
)

aggregates = table(
    API,
    'aggregates',
    'id key!, uuid uuid, name string',
)

aggregate_hosts = table(
    API,
    'aggregate_hosts',
    'id key!, host string, aggregate_id aggregates.id!',
)

aggregate_metadata = table(
    API,
    'aggregate_metadata',
    'id key!, aggregate_id aggregates.id!, key string!, value string!',
)

services = table(
    CELL,
    'services',
    'id key!, host string, binary string, topic string, report_count int!,'
    'disabled boolean, deleted int, disabled_reason string, last_seen_up datetime,'
    'forced_down boolean, version int, uuid uuid',
)

compute_nodes = table(
    CELL,
    'compute_nodes',
    'id key!, service_id int, vcpus int!, memory_mb int!, local_gb int!,'
    'vcpus_used int!, memory_mb_used int!, local_gb_used int!,'
    'hypervisor_type mediumtext!, hypervisor_version int!, cpu_info mediumtext!,'
    'disk_available_least int, free_ram_mb int, free_disk_gb int,'
    'current_workload int, running_vms int, hypervisor_hostname string, deleted int,'
    'host_ip address, supported_instances text, pci_stats text, metrics text,'
    'extra_resources text, stats text, numa_topology text, host string,'
    'ram_allocation_ratio float, cpu_allocation_ratio float, uuid uuid,'
    'disk_allocation_ratio float, mapped int',
)

instances = table(
    CELL,
    'instances',
    'id key!, internal_id int, user_id string, project_id string, image_ref string,'
    'kernel_id string, ramdisk_id string, launch_index int, key_name string,'
    'key_data mediumtext, power_state int, vm_state string, memory_mb int, vcpus int,'
    'hostname string, host string, user_data mediumtext, reservation_id string,'
    'launched_at datetime, terminated_at datetime, display_name string,'
    'display_description string, availability_zone string, locked boolean,'
    'os_type string, launched_on mediumtext, instance_type_id int, vm_mode string,'
    'uuid uuid!, architecture string, root_device_name string, access_ip_v4 address,'
    'access_ip_v6 address, config_drive string, task_state string,'
    'default_ephemeral_device string, default_swap_device string, progress int,'
    'auto_disk_config boolean, shutdown_terminate boolean, disable_terminate boolean,'
    'root_gb int, ephemeral_gb int, cell_name string, node string, deleted int,'
    'locked_by owner, cleaned int, ephemeral_key_uuid uuid, hidden boolean,'
    'compute_id bigint',
    owner=sa.Enum('owner', 'admin', name='instances0locked_by'),
)

instance_system_metadata = table(
    CELL,
    'instance_system_metadata',
    'id key!, instance_uuid instances.uuid!, key string!, value string, deleted int',
)


def lacking(database: Database, metadata: sa.MetaData) -> list[str]:
    """Return, for people, the tables and columns that a database lacks."""
    with database.read() as connection:
        inspector = sa.inspect(connection)
        present = set(inspector.get_table_names())
        tables = metadata.sorted_tables
        missing = [table.name for table in tables if table.name not in present]
        lines = (
            [f'{database.name} has no table {", ".join(missing)}'] if missing else []
        )
        for table in tables:
            if table.name in present and (absent := columns_lacking(inspector, table)):
                lines.append(
                    f'the table {table.name} of {database.name} has no column '
                    f'{", ".join(absent)}'
                )
    return lines


def columns_lacking(inspector: sa.Inspector, table: sa.Table) -> list[str]:
    """Return the names of the columns that a table of a database lacks."""
    found = {column['name'] for column in inspector.get_columns(table.name)}
    return sorted({column.name for column in table.columns} - found)
