# SPDX-License-Identifier: Apache-2.0
"""What plugins do not see as nova shows it, and why; docs/plugins.md shows the same."""

from __future__ import annotations

NEEDS_DATABASE = "asks or writes nova's database: set plugins_use_nova"
CHANGES_REQUEST = 'changes the query to placement, which was answered before'
CONSUMES = 'changes a host: novasched consumes it itself, by consume_from_request()'
READ_ONLY = 'read-only and shared by requests; no versioned object'
NOT_KEPT = 'is not kept of an aggregate'
OTHER_TEXT = 'has another text'
ANSWERS = 'answers where nova raises'
UNREAD = 'of an instance, only what the scheduler reads is known: set plugins_use_nova'

EXCEPTIONS = {
    NEEDS_DATABASE: {
        '*': 'obj_alternate_context should_migrate_data create destroy',
        'Aggregate': 'add_host delete_host get_by_id get_by_uuid update_metadata',
        'CellMapping': 'format_db_url format_mq_url get_by_uuid',
        'ComputeNode': 'get_by_* get_first_node_* update_from_virt_driver',
        'ComputeNodeList': 'get_*',
        'Flavor': 'add_access get_by_* remove_access save_*',
        'ImageMeta': 'from_image_ref from_instance',
        'InstanceGroup': 'add_members count_members_* destroy_* get_* refresh',
        'InstanceNUMATopology': 'get_by_* obj_from_db_obj',
        'InstancePCIRequests': 'get_by_* obj_from_db to_json',
        'NUMATopology': 'from_legacy_object obj_from_db_obj',
        'RequestSpec': 'destroy_bulk get_by_*',
        'SecurityGroup': 'get_by_name in_use refresh get',
        'SecurityGroupList': 'get_*',
    },
    UNREAD: {'Instance': '*'},
    CHANGES_REQUEST: {
        'Destination': 'append_forbidden_aggregates require_aggregates',
        'NetworkRequest': 'from_tuple',
        'NetworkRequestList': 'from_tuples',
        'RequestGroup': 'add_* from_* is_empty* strip_zeros to_queryparams',
        'RequestLevelParams': 'extend_with from_port_request',
        'RequestSpec': 'ensure_* from_* generate_* map_requested_* reset_forced_*',
        'SchedulerLimits': 'from_dict',
        'SchedulerRetries': 'from_dict',
    },
    CONSUMES: {
        'HostState': 'update',
        'InstanceNUMACell': 'clear_host_pinning pin pin_vcpus siblings',
        'InstanceNUMATopology': 'clear_host_pinning',
        'NUMACell': 'pin_cpus* unpin_cpus*',
        'PciDeviceStats': 'add_device apply_requests clear consume_requests '
        'dev_filter get_free_devs ignored_* numa_topology pool_keys populate_* '
        'remove_device to_device_pools_obj update_device',
        'InstancePCIRequest': 'is_live_migratable*',
    },
    READ_ONLY: {
        'NUMACell': 'obj_* save to_json_schema in* can_fit_pagesize(1*',
        'NUMAPagesTopology': 'obj_* save to_json_schema iter len in*',
        'NUMATopology': 'obj_* save to_json_schema in*',
        'NetworkMetadata': 'obj_* save to_json_schema iter len in*',
        'PciDeviceStats': 'iter',
    },
    NOT_KEPT: {'Aggregate': '*created_at *updated_at *deleted_at'},
    OTHER_TEXT: {
        'Aggregate': 'str',
        'ComputeNode': 'str',
        'InstanceNUMACell': 'str',
        'NUMACell': 'str',
        'NUMAPagesTopology': 'str',
        'NUMATopology': 'str',
        'NetworkMetadata': 'str',
        'PciDeviceStats': 'str',
        'RequestSpec': 'str',
        'SecurityGroup': 'str',
    },
    ANSWERS: {
        'Aggregate': 'iter keys items values [[]*',
        'ComputeNode': '*deleted',
        'ImageMetaProps': 'get*',
        'InstanceNUMACell': '*cpu_topology* iter keys items values',
        'RequestSpec': 'get get?default items iter keys len values *num_instances [[]*',
        'SecurityGroup': '*deleted',
    },
}
"""By reason and class of nova, patterns of names; also ``in name`` and ``[name]``."""


def rules():
    """Yield the reason, the class and a pattern of each exception."""
    for reason, classes in EXCEPTIONS.items():
        for kind, patterns in classes.items():
            for pattern in patterns.split():
                yield reason, kind, pattern
