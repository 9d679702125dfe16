# SPDX-License-Identifier: Apache-2.0
"""Every option is gathered once and can be registered."""

import pytest

from novasched.process import opts
from tests.support.clouds.configuration import make_conf


def test_every_option_has_a_help_text():
    silent = [
        opt.name for _, listed in opts.list_opts() for opt in listed if not opt.help
    ]
    assert silent == []


def test_no_option_is_gathered_twice():
    named = [(group, opt.dest) for group, listed in opts.list_opts() for opt in listed]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ('group', 'name', 'default'),
    [
        ('DEFAULT', 'host', None),
        ('DEFAULT', 'concurrency_backend', 'auto'),
        ('DEFAULT', 'control_exchange', 'nova'),
        ('DEFAULT', 'default_availability_zone', 'nova'),
        ('DEFAULT', 'executor_thread_pool_size', 64),
        ('DEFAULT', 'graceful_shutdown_timeout', 180),
        ('DEFAULT', 'long_rpc_timeout', 1800),
        ('DEFAULT', 'manager_shutdown_timeout', 160),
        ('DEFAULT', 'report_interval', 10),
        ('DEFAULT', 'rpc_response_timeout', 60),
        ('DEFAULT', 'service_down_time', 60),
        ('filter_scheduler', 'host_subset_size', 1),
        ('filter_scheduler', 'track_instance_changes', True),
        ('neutron', 'http_retries', 3),
        ('neutron', 'service_type', 'network'),
        ('neutron', 'timeout', None),
        ('neutron', 'valid_interfaces', ['internal', 'public']),
        ('notifications', 'default_level', 'INFO'),
        ('notifications', 'notification_format', 'unversioned'),
        (
            'notifications',
            'versioned_notifications_topics',
            ['versioned_notifications'],
        ),
        ('oslo_messaging_notifications', 'driver', []),
        ('oslo_messaging_rabbit', 'ssl', False),
        ('scheduler', 'discover_hosts_in_cells_interval', -1),
        ('scheduler', 'enable_isolated_aggregate_filtering', False),
        ('scheduler', 'image_metadata_prefilter', False),
        ('scheduler', 'limit_tenants_to_placement_aggregate', False),
        ('scheduler', 'max_attempts', 3),
        ('scheduler', 'max_placement_results', 1000),
        ('scheduler', 'placement_aggregate_required_for_tenants', False),
        ('scheduler', 'query_placement_for_image_type_support', False),
        ('scheduler', 'query_placement_for_routed_network_aggregates', False),
        ('scheduler', 'workers', None),
        ('workarounds', 'disable_compute_service_check_for_ffu', False),
    ],
)
def test_defaults_are_novas(conf, group, name, default):
    values = conf if group == 'DEFAULT' else conf[group]
    assert values[name] == default


def test_two_configurations_have_nothing_in_common(conf):
    conf.set_override('max_attempts', 9, 'scheduler')
    other = make_conf()
    assert other.scheduler.max_attempts == 3
