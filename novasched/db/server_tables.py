# SPDX-License-Identifier: Apache-2.0
"""Tables of nova in which its API keeps servers, their groups and flavors."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.tables import API, CELL, table

instance_mappings = table(
    API,
    'instance_mappings',
    'id key!, instance_uuid uuid!, cell_id cell_mappings.id, project_id string!,'
    'queued_for_delete boolean, user_id string',
    sa.UniqueConstraint('instance_uuid', name='uniq_instance_mappings0instance_uuid'),
    sa.Index('instance_mappings_user_id_project_id_idx', 'user_id', 'project_id'),
    sa.Index('project_id_idx', 'project_id'),
)

request_specs = table(
    API,
    'request_specs',
    'id key!, instance_uuid uuid!, spec mediumtext!',
    sa.UniqueConstraint('instance_uuid', name='uniq_request_specs0instance_uuid'),
)

instance_extra = table(
    CELL,
    'instance_extra',
    'deleted int, id key!, instance_uuid instances.uuid!, numa_topology text,'
    'pci_requests text, flavor text, vcpu_model text, migration_context text,'
    'keypairs text, device_metadata text, trusted_certs text, vpmems text,'
    'resources text',
    sa.Index('instance_extra_idx', 'instance_uuid'),
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

flavors = table(
    API,
    'flavors',
    'name string!, id key!, memory_mb int!, vcpus int!, swap int!, vcpu_weight int,'
    'flavorid string!, rxtx_factor float, root_gb int, ephemeral_gb int,'
    'disabled boolean, is_public boolean, description text',
    sa.UniqueConstraint('flavorid', name='uniq_flavors0flavorid'),
    sa.UniqueConstraint('name', name='uniq_flavors0name'),
)

flavor_extra_specs = table(
    API,
    'flavor_extra_specs',
    'id key!, flavor_id flavors.id!, key string!, value string',
    sa.UniqueConstraint(
        'flavor_id', 'key', name='uniq_flavor_extra_specs0flavor_id0key'
    ),
    sa.Index('flavor_extra_specs_flavor_id_key_idx', 'flavor_id', 'key'),
)

instance_groups = table(
    API,
    'instance_groups',
    'id key!, user_id string, project_id string, uuid uuid!, name string',
    sa.UniqueConstraint('uuid', name='uniq_instance_groups0uuid'),
)

instance_group_policy = table(
    API,
    'instance_group_policy',
    'id key!, policy string, group_id instance_groups.id!, rules text',
    sa.Index('instance_group_policy_policy_idx', 'policy'),
)

instance_group_member = table(
    API,
    'instance_group_member',
    'id key!, instance_uuid string, group_id instance_groups.id!',
    sa.Index('instance_group_member_instance_idx', 'instance_uuid'),
)
