# SPDX-License-Identifier: Apache-2.0
"""CPUs, memory and disk that are oversubscribed up to a ratio, or filled wholly."""

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.drivers.selections import limits as selected_limits
from novasched.scheduler.filters.legacy.overcommit import (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    RamFilter,
)
from novasched.scheduler.reasons import Code
from novasched.scheduler.warnings import PluginWarning
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NAN = float('nan')


def host(ratio_of, ratio, of_aggregates, **columns):
    """A host with a ratio of its own, in aggregates with other ratios."""
    aggregates = tuple(
        factories.aggregate(number, **{ratio_of: value})
        for number, value in enumerate(of_aggregates)
    )
    given = {ratio_of: ratio, 'aggregates': aggregates, **columns}
    return factories.hosts(**{name: [value] for name, value in given.items()})


def cpus(total, used, ratio, *of_aggregates):
    columns = {'vcpus_total': total, 'vcpus_used': used}
    return host('cpu_allocation_ratio', ratio, of_aggregates, **columns)


def ram(total, free, ratio, *of_aggregates):
    columns = {'total_usable_ram_mb': total, 'free_ram_mb': free}
    return host('ram_allocation_ratio', ratio, of_aggregates, **columns)


def disk(total_gb, free_mb, ratio, *of_aggregates):
    columns = {'total_usable_disk_gb': total_gb, 'free_disk_mb': free_mb}
    return host('disk_allocation_ratio', ratio, of_aggregates, **columns)


def disk_request(root_gb, ephemeral_gb, swap):
    return factories.request(root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap)


def limits(filter_, hosts, request):
    """The limits of the host that passes; None: it is rejected."""
    passed = filter_.apply(hosts, request)
    return passed.limits.tolist()[0] if len(passed) else None


def outcome(filter_, hosts, asked):
    """Whether the host passes, and its limits, even if it does not."""
    state, request = hosts.state(0), factories.request(vcpus=asked)
    passes = filter_.host_passes(state, request)
    assert len(filter_.apply(hosts, request)) == passes
    return passes, state.limits


@cases(
    'filter_, hosts, asked, passes, limit',
    ('the last one', CoreFilter(), cpus(4, 7, 2.0, '99'), 1, True, 8.0),
    ('none left', CoreFilter(), cpus(4, 8, 2.0, '99'), 1, False, 8.0),
    ('the host does not tell', CoreFilter(), cpus(0, 8, 2.0, '99'), 1, True, None),
    ('larger than the host', CoreFilter(), cpus(1, 0, 16.0, '99'), 2, False, 16.0),
    ('a ratio of nothing', CoreFilter(), cpus(4, 0, 0.0, '99'), 1, False, None),
    ('the ratio is unknown', CoreFilter(), cpus(4, 0, NAN, '99'), 1, False, None),
    ('larger, but no limit', CoreFilter(), cpus(4, -9, -1.0, '99'), 5, True, None),
    ('of the aggregate', AggregateCoreFilter(), cpus(4, 8, 2.0, '3'), 1, True, 12.0),
    ('the least', AggregateCoreFilter(), cpus(4, 8, 16.0, '2', '3'), 1, False, 8.0),
    ('no number', AggregateCoreFilter(), cpus(4, 8, 16.0, 'XX'), 1, True, 64.0),
    ('of the host', AggregateCoreFilter(), cpus(4, 8, 16.0), 1, True, 64.0),
)
def test_cpus(filter_, hosts, asked, passes, limit):
    expected = {} if limit is None else {'vcpu': limit}
    assert outcome(filter_, hosts, asked) == (passes, expected)


@cases(
    'filter_, hosts, limit',
    ('all of it', RamFilter(), ram(1024, 1024, 1.0, '9'), 1024.0),
    ('one too few', RamFilter(), ram(1024, 1023, 1.0, '9'), None),
    ('oversubscribed', RamFilter(), ram(2048, -1024, 2.0, '9'), 4096.0),
    ('oversubscribed, one too few', RamFilter(), ram(2048, -1025, 2.0, '9'), None),
    ('larger than the host', RamFilter(), ram(512, 512, 4.0, '9'), None),
    ('the ratio is unknown', RamFilter(), ram(1024, 1024, NAN, '9'), None),
    ('of the aggregate', AggregateRamFilter(), ram(1024, 0, 1.0, '2.0'), 2048.0),
    ('the least', AggregateRamFilter(), ram(1024, 0, 1.0, '1.5', '2.0'), None),
    ('no number', AggregateRamFilter(), ram(1024, 1024, 1.0, 'XX'), 1024.0),
    ('nan', AggregateRamFilter(), ram(1024, 1024, 1.0, 'nan', '0.1'), 1024.0),
    ('one is no number', AggregateRamFilter(), ram(1024, 1024, 1.0, '2', 'XX'), 1024.0),
    ('of the host', AggregateRamFilter(), ram(1024, 0, 2.0), 2048.0),
    ('empty', AggregateRamFilter(), ram(1024, 1024, 1.0, ''), 1024.0),
)
def test_ram(filter_, hosts, limit):
    expected = None if limit is None else {'memory_mb': limit}
    assert limits(filter_, hosts, factories.request(memory_mb=1024)) == expected


def test_without_an_end_there_is_no_limit():
    request = factories.request(memory_mb=1024)
    assert limits(AggregateRamFilter(), ram(1024, 0, 1.0, 'inf'), request) == {}


@cases('filter_, hosts, asked, limit',
    ('enough', DiskFilter(), disk(13, 11264, 1.0, '99'), (1, 1, 512), 13.0),
    ('swap counts', DiskFilter(), disk(13, 2048, 1.0, '99'), (1, 1, 1024), None),
    ('more', DiskFilter(), disk(12, -10240, 10.0, '99'), (10, 1, 1024), 120.0),
    ('larger than the host', DiskFilter(), disk(1, 1024, 10.0, '99'), (1, 0, 1), None),
    ('unknown', DiskFilter(), disk(13, 11264, NAN, '99'), (1, 1, 512), None),
    ('of the aggregate', AggregateDiskFilter(), disk(16, 1024, 1.0, '2'), (2, 1, 0),
     32),
    ('broken', AggregateDiskFilter(), disk(10, 0, 1.0, '1.25'), (2, 0, 512), 12.5),
    ('no number', AggregateDiskFilter(), disk(10, 0, 1.0, 'XX'), (2, 0, 512), None),
)  # fmt: skip
def test_disk(filter_, hosts, asked, limit):
    expected = None if limit is None else {'disk_gb': limit}
    assert limits(filter_, hosts, disk_request(*asked)) == expected


def test_the_selection_has_whole_gigabytes():
    hosts, request = disk(10, 0, 1.0, '1.25'), disk_request(2, 0, 512)
    passed = AggregateDiskFilter().apply(hosts, request)
    assert selected_limits(passed.state(0)).disk_gb == 12


@cases('filter_, columns, asked, expected',
    ('RAM', ExactRamFilter(), {'free_ram_mb': 512}, {}, {'memory_mb': 16384}),
    ('less RAM', ExactRamFilter(), {'free_ram_mb': 511}, {}, None),
    ('more RAM', ExactRamFilter(), {'free_ram_mb': 513}, {}, None),
    ('CPUs', ExactCoreFilter(), {'vcpus_used': 5}, {'vcpus': 3}, {'vcpu': 8}),
    ('more CPUs', ExactCoreFilter(), {'vcpus_used': 5}, {'vcpus': 2}, None),
    ('no CPUs', ExactCoreFilter(), {'vcpus_total': 0}, {'vcpus': 0}, None),
    ('disk', ExactDiskFilter(), {'free_disk_mb': 1536}, {'swap': 512},
     {'disk_gb': 100}),
    ('more disk', ExactDiskFilter(), {'free_disk_mb': 2048}, {}, None),
)  # fmt: skip
def test_hosts_that_are_filled(filter_, columns, asked, expected):
    hosts = factories.hosts(**{name: [value] for name, value in columns.items()})
    assert limits(filter_, hosts, factories.request(**asked)) == expected


def test_a_plugin_of_ours_at_host_grain():
    state = ram(1024, 1024, 1.0).state(0)
    state.limits = {'own': 1}
    assert RamFilter().host_passes(state, factories.request(memory_mb=512))
    assert state.limits == {'own': 1, 'memory_mb': 1024.0}
    refused = ram(1024, 0, 1.0).state(0)
    assert not RamFilter().host_passes(refused, factories.request(memory_mb=512))
    assert refused.limits == {}


def test_a_subclass_goes_host_by_host_and_keeps_the_limits():
    class Picky(RamFilter):
        def host_passes(self, host_state, spec_obj):
            return host_state.host != 'h2' and super().host_passes(host_state, spec_obj)

    hosts = factories.hosts(3, free_ram_mb=[8192, 8192, 1])
    passed = adapted(Picky()).apply(hosts, factories.request(memory_mb=512))
    assert passed.host.tolist() == ['h1']
    assert passed.limits.tolist() == [{'memory_mb': 16384.0}]


@cases('filter_, hosts, text',
    ('more CPUs than the host', CoreFilter(), cpus(1, 0, 16.0),
     'does not have 2 total cpus before overcommit, it only has 1'),
    ('too few CPUs left', CoreFilter(), cpus(4, 7, 2.0),
     'does not have 2 usable vcpus, it only has 1.0 usable vcpus '
     '(cpu_allocation_ratio 2.0)'),
    ('more RAM than the host', RamFilter(), ram(512, 512, 4.0),
     'does not have 1024 MB usable ram before overcommit, it only has 512 MB'),
    ('too little RAM left', RamFilter(), ram(2048, -1025, 2.0),
     'does not have 1024 MB usable ram, it only has 1023.0 MB usable ram '
     '(ram_allocation_ratio 2.0)'),
    ('the ratio of the aggregate', AggregateRamFilter(), ram(1024, 0, 1.0, '1.5'),
     'does not have 1024 MB usable ram, it only has 512.0 MB usable ram '
     '(ram_allocation_ratio 1.5)'),
    ('a ratio that is no number', AggregateRamFilter(), ram(1024, 0, 1.0, 'XX', '2'),
     'does not have 1024 MB usable ram, it only has 0.0 MB usable ram '
     '(ram_allocation_ratio 1.0, as 2, XX of its aggregates is no number)'),
    ('more disk than the host', DiskFilter(), disk(1, 1024, 10.0),
     'does not have 1025 MB usable disk space before overcommit, it only has '
     '1024 MB'),
    ('too little disk left', DiskFilter(), disk(2, 0, 1.5),
     'does not have 1025 MB usable disk, it only has 1024.0 MB usable disk '
     '(disk_allocation_ratio 1.5)'),
    ('not exactly the RAM', ExactRamFilter(), ram(1024, 5, 1.0),
     'does not have exactly 1024 MB usable RAM, it has 5 MB'),
    ('not exactly the CPUs', ExactCoreFilter(), cpus(8, 5, 1.0),
     'does not have exactly 2 cores of usable vcpu, it has 3'),
    ('no CPUs', ExactCoreFilter(), cpus(0, 0, 1.0),
     'VCPUs not set; assuming CPU collection broken'),
    ('not exactly the disk', ExactDiskFilter(), disk(1, 3, 1.0),
     'does not have exactly 1025 MB usable disk, it has 3'),
)  # fmt: skip
def test_why(filter_, hosts, text):
    asked = {'vcpus': 2, 'memory_mb': 1024, 'root_gb': 1, 'ephemeral_gb': 0, 'swap': 1}
    reason = filter_.why(hosts.state(0), factories.request(**asked))
    assert (reason.text, filter_.codes) == (text, (reason.code,))


@pytest.mark.parametrize(
    ('filters', 'code', 'said'),
    [
        ([CoreFilter, AggregateCoreFilter], Code.NOT_ENOUGH_CPUS, 'The {} is'),
        ([RamFilter, AggregateRamFilter], Code.NOT_ENOUGH_RAM, 'The {} is'),
        ([DiskFilter, AggregateDiskFilter], Code.NOT_ENOUGH_DISK, 'The {} is'),
        ([ExactCoreFilter], Code.CPUS_DIFFER, '{} is'),
        ([ExactRamFilter], Code.RAM_DIFFERS, '{} is'),
        ([ExactDiskFilter], Code.DISK_DIFFERS, '{} is'),
    ],
)
def test_overcommit_filters_are_deprecated(filters, code, said):
    for each in filters:
        deprecated = said.format(each.__name__)
        assert each.deprecated.startswith(f'{deprecated} deprecated ')
        assert each.codes == (code,)


@cases(
    'totals, said',
    ('all hosts report CPUs', [8, 8], []),
    (
        'one does not',
        [0, 8],
        [PluginWarning('VCPUs not set; assuming CPU collection broken: h1')],
    ),
)
def test_hosts_that_report_no_cpus_are_named(totals, said):
    hosts = factories.hosts(vcpus_total=totals)
    found = CoreFilter().request_warnings(hosts, hosts, factories.request())
    assert list(found) == said


def test_writing_filter_has_a_mask_over_columns():
    hosts = factories.hosts(2, free_ram_mb=[8192, 1])
    mask = RamFilter().mask(hosts, factories.request(memory_mb=512))
    assert mask.tolist() == [True, False]
