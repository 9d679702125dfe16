# SPDX-License-Identifier: Apache-2.0
"""Tables of nova that only conductors, computes and the API use, as nova has them."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.columns import (
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
from novasched.db.tables import API, CELL

__all__ = [
    'API',
    'CELL',
    'build_requests',
    'flavor_extra_specs',
    'flavors',
    'instance_actions',
    'instance_actions_events',
    'instance_extra',
    'instance_faults',
    'instance_group_member',
    'instance_group_policy',
    'instance_groups',
    'instance_mappings',
    'migrations',
    'request_specs',
]


def _instance(*, nullable: bool = True) -> sa.Column[str]:
    return sa.Column(
        'instance_uuid',
        sa.String(36),
        sa.ForeignKey('instances.uuid'),
        nullable=nullable,
    )


build_requests = table(
    'build_requests',
    API,
    *stamps(),
    identity(),
    string('project_id', nullable=False),
    uuid('instance_uuid', nullable=True),
    sa.Column('instance', MediumText),
    sa.Column('block_device_mappings', MediumText),
    sa.Column('tags', sa.Text),
    sa.UniqueConstraint('instance_uuid', name='uniq_build_requests0instance_uuid'),
    sa.Index('build_requests_project_id_idx', 'project_id'),
)

instance_mappings = table(
    'instance_mappings',
    API,
    *stamps(),
    identity(),
    uuid('instance_uuid'),
    sa.Column('cell_id', sa.ForeignKey('cell_mappings.id')),
    string('project_id', nullable=False),
    flag('queued_for_delete'),
    string('user_id'),
    sa.UniqueConstraint('instance_uuid', name='uniq_instance_mappings0instance_uuid'),
    sa.Index('instance_mappings_user_id_project_id_idx', 'user_id', 'project_id'),
    sa.Index('project_id_idx', 'project_id'),
)

request_specs = table(
    'request_specs',
    API,
    *stamps(),
    identity(),
    uuid('instance_uuid'),
    sa.Column('spec', MediumText, nullable=False),
    sa.UniqueConstraint('instance_uuid', name='uniq_request_specs0instance_uuid'),
)

instance_extra = table(
    'instance_extra',
    CELL,
    *soft_stamps(),
    amount('deleted'),
    identity(),
    _instance(nullable=False),
    sa.Column('numa_topology', sa.Text),
    sa.Column('pci_requests', sa.Text),
    sa.Column('flavor', sa.Text),
    sa.Column('vcpu_model', sa.Text),
    sa.Column('migration_context', sa.Text),
    sa.Column('keypairs', sa.Text),
    sa.Column('device_metadata', sa.Text),
    sa.Column('trusted_certs', sa.Text),
    sa.Column('vpmems', sa.Text),
    sa.Column('resources', sa.Text),
    sa.Index('instance_extra_idx', 'instance_uuid'),
)

instance_faults = table(
    'instance_faults',
    CELL,
    *soft_stamps(),
    identity(),
    _instance(),
    amount('code', nullable=False),
    string('message'),
    sa.Column('details', MediumText),
    string('host'),
    amount('deleted'),
    sa.Index(
        'instance_faults_instance_uuid_deleted_created_at_idx',
        'instance_uuid',
        'deleted',
        'created_at',
    ),
)

instance_actions = table(
    'instance_actions',
    CELL,
    *soft_stamps(),
    identity(),
    string('action'),
    _instance(),
    string('request_id'),
    string('user_id'),
    string('project_id'),
    sa.Column('start_time', sa.DateTime),
    sa.Column('finish_time', sa.DateTime),
    string('message'),
    amount('deleted'),
    sa.Index(
        'instance_actions_instance_uuid_updated_at_idx', 'instance_uuid', 'updated_at'
    ),
)

instance_actions_events = table(
    'instance_actions_events',
    CELL,
    *soft_stamps(),
    identity(),
    string('event'),
    sa.Column('action_id', sa.ForeignKey('instance_actions.id')),
    sa.Column('start_time', sa.DateTime),
    sa.Column('finish_time', sa.DateTime),
    string('result'),
    sa.Column('traceback', sa.Text),
    amount('deleted'),
    string('host'),
    sa.Column('details', sa.Text),
)

migrations = table(
    'migrations',
    CELL,
    *soft_stamps(),
    identity(),
    string('source_compute'),
    string('dest_compute'),
    string('dest_host'),
    string('status'),
    _instance(),
    amount('old_instance_type_id'),
    amount('new_instance_type_id'),
    string('source_node'),
    string('dest_node'),
    amount('deleted'),
    sa.Column(
        'migration_type',
        sa.Enum(
            'migration',
            'resize',
            'live-migration',
            'evacuation',
            name='migration_type',
        ),
    ),
    flag('hidden'),
    sa.Column('memory_total', sa.BigInteger),
    sa.Column('memory_processed', sa.BigInteger),
    sa.Column('memory_remaining', sa.BigInteger),
    sa.Column('disk_total', sa.BigInteger),
    sa.Column('disk_processed', sa.BigInteger),
    sa.Column('disk_remaining', sa.BigInteger),
    uuid(nullable=True),
    flag('cross_cell_move'),
    string('user_id'),
    string('project_id'),
    sa.Column('dest_compute_id', sa.BigInteger),
    sa.Index(
        'migrations_instance_uuid_and_status_idx', 'deleted', 'instance_uuid', 'status'
    ),
    sa.Index('migrations_uuid', 'uuid', unique=True),
)

flavors = table(
    'flavors',
    API,
    *stamps(),
    string('name', nullable=False),
    identity(),
    amount('memory_mb', nullable=False),
    amount('vcpus', nullable=False),
    amount('swap', nullable=False),
    amount('vcpu_weight'),
    string('flavorid', nullable=False),
    sa.Column('rxtx_factor', sa.Float),
    amount('root_gb'),
    amount('ephemeral_gb'),
    flag('disabled'),
    flag('is_public'),
    sa.Column('description', sa.Text),
    sa.UniqueConstraint('flavorid', name='uniq_flavors0flavorid'),
    sa.UniqueConstraint('name', name='uniq_flavors0name'),
)

flavor_extra_specs = table(
    'flavor_extra_specs',
    API,
    *stamps(),
    identity(),
    sa.Column('flavor_id', sa.ForeignKey('flavors.id'), nullable=False),
    string('key', nullable=False),
    string('value'),
    sa.UniqueConstraint(
        'flavor_id', 'key', name='uniq_flavor_extra_specs0flavor_id0key'
    ),
    sa.Index('flavor_extra_specs_flavor_id_key_idx', 'flavor_id', 'key'),
)

instance_groups = table(
    'instance_groups',
    API,
    *stamps(),
    identity(),
    string('user_id'),
    string('project_id'),
    uuid(),
    string('name'),
    sa.UniqueConstraint('uuid', name='uniq_instance_groups0uuid'),
)

instance_group_policy = table(
    'instance_group_policy',
    API,
    *stamps(),
    identity(),
    string('policy'),
    sa.Column('group_id', sa.ForeignKey('instance_groups.id'), nullable=False),
    sa.Column('rules', sa.Text),
    sa.Index('instance_group_policy_policy_idx', 'policy'),
)

instance_group_member = table(
    'instance_group_member',
    API,
    *stamps(),
    identity(),
    string('instance_uuid'),
    sa.Column('group_id', sa.ForeignKey('instance_groups.id'), nullable=False),
    sa.Index('instance_group_member_instance_idx', 'instance_uuid'),
)
