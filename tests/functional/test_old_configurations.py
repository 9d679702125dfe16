# SPDX-License-Identifier: Apache-2.0
"""A nova.conf of any release starts, and says what is called otherwise today."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import pytest
from oslo_config import cfg
from oslo_log import log, versionutils

from novasched import plugins
from novasched.app import preflight
from novasched.compat import deprecated_options
from novasched.compat.driver_loading import driver_from_conf
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from tests.support.tables.cases import cases

FIVE = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
)
OLD = ('RetryFilter', 'AvailabilityZoneFilter', 'RamFilter')
DEPRECATED = re.compile(
    r'Option "(\w+)" from group "(\w+)" is deprecated. '
    r'Use option "(\w+)" from group "(\w+)"'
)


class Case(NamedTuple):
    """A file; the filters it leads to; names in [DEFAULT] that are no old names of
    ours, and warnings of ours."""

    text: str
    filters: tuple[str, ...]
    others: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    attempts: int = 3
    ram_multiplier: float = 1.0

    def renamed(self):
        """The old names in the file."""
        default = self.text.partition('[DEFAULT]')[2].partition('\n[')[0]
        return set(re.findall(r'^(\w+) =', default, re.MULTILINE)) - {*self.others}


JUNO = Case(
    f"""
[DEFAULT]
scheduler_driver = nova.scheduler.filter_scheduler.FilterScheduler
scheduler_host_manager = nova.scheduler.host_manager.HostManager
scheduler_manager = nova.scheduler.manager.SchedulerManager
scheduler_topic = scheduler
scheduler_available_filters = nova.scheduler.filters.standard_filters
scheduler_default_filters = {', '.join(OLD + FIVE)}
scheduler_weight_classes = nova.scheduler.weights.all_weighers
scheduler_host_subset_size = 1
scheduler_max_attempts = 5
scheduler_driver_task_period = 60
driver_task_period = 60
scheduler_json_config_location = /etc/nova/scheduler.json
ram_weight_multiplier = 2.0
io_ops_weight_multiplier = -1.0
max_io_ops_per_host = 8
max_instances_per_host = 50
isolated_images =
isolated_hosts =
restrict_isolated_hosts_to_isolated_images = True
aggregate_image_properties_isolation_separator = .
""",
    OLD + FIVE,
    (
        *('scheduler_manager', 'scheduler_topic', 'driver_task_period'),
        'scheduler_json_config_location',
    ),
    (
        'driver: nova.scheduler.filter_scheduler.FilterScheduler is called',
        'host_manager is nova.scheduler.host_manager.HostManager',
        'standard_filters is called nova.scheduler.filters.all_filters today',
        'scheduler_json_config_location is /etc/nova/scheduler.json, which cannot',
    ),
    attempts=5,
    ram_multiplier=2.0,
)
MITAKA = Case(
    """
[DEFAULT]
scheduler_driver = filter_scheduler
scheduler_host_manager = ironic_host_manager
scheduler_use_baremetal_filters = True
baremetal_scheduler_default_filters = ComputeFilter, ExactRamFilter
scheduler_available_filters = nova.scheduler.filters.all_filters
scheduler_available_filters = nova.scheduler.filters.retry_filter.RetryFilter
scheduler_default_filters = RetryFilter, ComputeFilter, TrustedFilter
scheduler_weight_classes = nova.scheduler.weights.ram.RAMWeigher
scheduler_tracks_instance_changes = False
soft_affinity_weight_multiplier = 1.0
disk_weight_multiplier = 1.0
[metrics]
weight_setting = cpu.percent=-1.0
required = False
""",
    ('ComputeFilter', 'ExactRamFilter'),
    (),
    (
        'host_manager is ironic_host_manager, which is not needed today',
        'use_baremetal_filters is deprecated',
    ),
)
PIKE = Case(
    """
[DEFAULT]
reserved_host_memory_mb = 512
[scheduler]
driver = filter_scheduler
host_manager = host_manager
periodic_task_interval = 60
max_attempts = 4
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
enabled_filters = RetryFilter, ComputeFilter, ExactCoreFilter, AggregateRamFilter
weight_classes = nova.scheduler.weights.all_weighers
use_baremetal_filters = False
track_instance_changes = True
""",
    ('RetryFilter', 'ComputeFilter', 'ExactCoreFilter', 'AggregateRamFilter'),
    ('reserved_host_memory_mb',),
    attempts=4,
)
ROCKY = Case(
    """
[scheduler]
driver = filter_scheduler
discover_hosts_in_cells_interval = 300
limit_tenants_to_placement_aggregate = True
[filter_scheduler]
enabled_filters = AvailabilityZoneFilter, ComputeFilter, AggregateCoreFilter
weight_classes = nova.scheduler.weights.metrics.MetricsWeigher
build_failure_weight_multiplier = 1000000
[metrics]
weight_setting = x=1
""",
    ('AvailabilityZoneFilter', 'ComputeFilter', 'AggregateCoreFilter'),
)
TODAY = Case(
    """
[scheduler]
workers = 4
[filter_scheduler]
enabled_filters = ComputeFilter, ImagePropertiesFilter
hypervisor_version_weight_multiplier = 0
num_instances_weight_multiplier = -1
image_props_weight_setting = os_distro=2
""",
    ('ComputeFilter', 'ImagePropertiesFilter'),
)


@pytest.fixture
def configure(tmp_path, logging_as_before):
    """Read a configuration as the daemon does; its log goes to nova.log."""

    def run(text):
        path = tmp_path / 'nova.conf'
        path.write_text(text)
        argv = ['--config-file', str(path), '--log-file', str(tmp_path / 'nova.log')]
        return preflight.configure(cfg.ConfigOpts(), argv)

    versionutils._deprecated_messages_sent.clear()
    yield run
    log._loggers.clear()


@pytest.fixture
def renamed(tmp_path):
    """Return what the log says is called otherwise: (name, group, name, group)."""
    return lambda: DEPRECATED.findall((tmp_path / 'nova.log').read_text())


@cases(
    'case',
    ('Juno', JUNO),
    ('Mitaka', MITAKA),
    ('Pike', PIKE),
    ('Rocky', ROCKY),
    ('2026', TODAY),
)
def test_a_configuration_of_a_release(configure, case, renamed):
    conf = configure(case.text)
    assert sorted(found[0] for found in renamed()) == sorted(case.renamed())
    told = list(deprecated_options.warnings(conf))
    assert len(told) == len(case.told), told
    for words in case.told:
        assert any(words in line for line in told), words
    profile = plugins.profile_from_conf(conf)
    assert tuple(each.name for each in profile.filters) == case.filters
    parts = DriverContext.from_conf(conf, profile, None, None, random.Random(1), print)
    assert type(driver_from_conf(conf, parts)) is FilterScheduler
    assert parts.max_attempts == case.attempts
    assert conf.filter_scheduler.ram_weight_multiplier == case.ram_multiplier


def test_old_option_name_is_logged_once(configure, renamed):
    conf = configure('[DEFAULT]\nscheduler_max_attempts = 9\n')
    assert [conf.scheduler.max_attempts for _ in range(2)] == [9, 9]
    assert renamed() == [
        ('scheduler_max_attempts', 'DEFAULT', 'max_attempts', 'scheduler')
    ]


def test_the_new_name_wins(configure):
    conf = configure(
        '[DEFAULT]\nscheduler_max_attempts = 9\n[scheduler]\nmax_attempts = 2\n'
    )
    assert conf.scheduler.max_attempts == 2
