# SPDX-License-Identifier: Apache-2.0
"""What plugins do not see as nova shows it, and why; docs/plugins.md shows the same."""

NEEDS_DATABASE = "is for nova's database: set `plugins_use_nova`"
CHANGES_REQUEST = 'is for the query to placement, answered before plugins run'
CONSUMES = 'changes a host: novasched consumes it itself, by consume_from_request()'
READ_ONLY = 'read-only and shared by requests; no versioned object'
NOT_KEPT = 'is not kept of an aggregate'
OTHER_TEXT = 'has another text'
ANSWERS = 'answers where nova raises'
UNREAD = 'is of an instance, of which little is read: set `plugins_use_nova`'

EXCEPTIONS = {
    NEEDS_DATABASE: {
        '*': 'obj_alternate_context should_migrate_data create destroy',
        'Aggregate': 'add_host delete_host get_by_id get_by_uuid update_metadata',
        'CellMapping': 'CELL0_UUID identity is_cell0* format_* get_by_uuid',
        'ComputeNode': 'get_by_* get_first_node_* update_from_virt_driver',
        'ComputeNodeList': 'get_*',
        'Flavor': 'add_access get_by_* remove_access save_*',
        'ImageMeta': 'from_image_ref from_instance',
        'InstanceGroup': 'add_members count_members_* destroy_* get_* refresh',
        'InstanceNUMATopology': 'get_by_* obj_from_db_obj',
        'InstancePCIRequests': 'get_by_* neutron_requests obj_from_db to_json',
        'NUMATopology': 'from_legacy_object obj_from_db_obj',
        'RequestSpec': 'destroy_bulk get_by_*',
        'SecurityGroup': 'get_by_name identifier in_use refresh get',
        'SecurityGroupList': 'get_*',
    },
    UNREAD: {'Instance': '*'},
    CHANGES_REQUEST: {
        'Destination': 'append_forbidden_aggregates require_aggregates',
        'NetworkRequest': 'auto_allocate from_tuple no_allocate to_tuple*',
        'NetworkRequestList': 'as_tuples* auto_allocate from_tuples '
        'is_single_unspecified no_allocate',
        'RequestGroup': 'add_* from_* is_empty* strip_zeros to_queryparams',
        'RequestLevelParams': 'extend_with from_port_request',
        'RequestSpec': 'ensure_* from_* generate_* get_request_group_mapping '
        'map_requested_* maps_requested_* reset_forced_*',
        'SchedulerLimits': 'from_dict',
        'SchedulerRetries': 'from_dict to_dict*',
    },
    CONSUMES: {
        'HostState': 'update',
        'InstanceNUMACell': 'clear_host_pinning len pin pin_vcpus siblings total_cpus',
        'InstanceNUMATopology': 'clear_host_pinning cpu_pinning cpu_policy '
        'cpuset_reserved emulator_threads_isolated',
        'NUMACell': 'pin_cpus* unpin_cpus*',
        'PciDeviceStats': 'add_device apply_requests clear consume_requests '
        'dev_filter get_free_devs has_remote_managed_* ignored_* numa_topology '
        'pool_keys populate_* remove_device to_device_pools_obj update_device',
        'InstancePCIRequest': 'FLAVOR_ALIAS NEUTRON_PORT is_live_migratable* source',
    },
    READ_ONLY: {
        'NUMACell': 'obj_* save to_json_schema in* can_fit_pagesize*',
        'NUMAPagesTopology': 'obj_* save to_json_schema iter len in* free_kb total_kb',
        'NUMATopology': 'obj_* save to_json_schema in*',
        'NetworkMetadata': 'obj_* save to_json_schema iter len in*',
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


def page_rows():
    """Return the rows of the table in docs/plugins.md."""
    for reason, classes in EXCEPTIONS.items():
        listed = [
            ('' if kind == '*' else f'`{kind}`: ')
            + ' '.join(f'`{pattern}`' for pattern in patterns.split())
            for kind, patterns in classes.items()
        ]
        yield f'| {reason} | {"; ".join(listed)} |'
