# SPDX-License-Identifier: Apache-2.0
"""Nonsense in flavors, aggregates, hints and images: a reason, or what is foreseen."""

import contextlib
import json

import netaddr
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.objects.image_meta import PRESENT_NAMES, ImageMeta, ImageMetaProps
from novasched.scheduler.filters import aggregate as aggregate_specs
from novasched.scheduler.filters import compute_capabilities, json_query
from novasched.scheduler.filters.affinity import SimpleCIDRAffinityFilter
from novasched.scheduler.filters.aggregate import AggregateImagePropertiesIsolation
from novasched.scheduler.filters.image_props import ImagePropertiesFilter
from novasched.scheduler.pipeline import Profile, run_filters, weigh
from novasched.scheduler.reasons import Reason
from novasched.scheduler.weighers.image_props import ImagePropertiesWeigher
from tests.properties import strategies
from tests.properties.test_filters import ALL as FILTERS
from tests.properties.test_weighers import ALL as WEIGHERS
from tests.support.clouds import factories
from tests.support.tables.examples import examples

# What a filter may raise for nonsense, as nova's does: the operators on numbers, and
# hints that are a language of their own.
FORESEEN = {
    aggregate_specs.AggregateInstanceExtraSpecsFilter: (ValueError, IndexError),
    compute_capabilities.ComputeCapabilitiesFilter: (ValueError, IndexError),
    json_query.JsonFilter: (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ),
    SimpleCIDRAffinityFilter: (netaddr.AddrFormatError, TypeError, ValueError),
}

NUMBERS = ['٣', '²', '1_0', '+5', '-0', '1e999', 'nan', 'inf', '0x10', '9' * 5000]
WORDS = ['', ' ', ',', ',,', ' , ', '=', '>= x', '>=', '<or>', '<in>', '<all-in>', '\0']
ODD = ['\ud800', '\udfff,1', 'İ', 'ß', '🙂' * 300, 'null', '[]', '{}', '["', '$', '%s']
UNREADABLE = ['{"maxphysaddr": {"bits": 1e999}}', '[' * 100_000, '{"model": 1e999}']
nonsense = st.sampled_from([*NUMBERS, *WORDS, *ODD]) | st.text(max_size=12)

SPECS = [
    'capabilities',
    'capabilities:',
    'capabilities:cpu_info:model',
    'capabilities:gpu:n',
    'capabilities:metrics',
    'capabilities:service:disabled',
    'capabilities:stats',
    'aggregate_instance_extra_specs:',
    'aggregate_instance_extra_specs:size',
    'dedicated_cloud:id',
    'hw:maxphysaddr_bits',
    'hypervisor_version',
    'local_disk:size_gb',
    'local_disk:type',
    'resources:VGPU',
    'size',
    'trust:trusted_host',
    'vgpu:type',
]
HINTS = [
    'build_near_host_ip',
    'cidr',
    'dedicated_cloud_id',
    'different_host',
    'query',
    'same_host',
]
METADATA = [
    'availability_zone',
    'dedicated_cloud_id',
    'dedicated_cloud_project_id',
    'filter_tenant_id',
    'hw_cpu_cores',
    'instance_type',
    'local_disk',
    'local_disk_type',
    'max_instances_per_host',
    'max_io_ops_per_host',
    'os_distro',
    'size',
    'vgpu_types',
    *strategies.RATIOS,
    *strategies.MULTIPLIERS,
]
VERSIONS = ['>=6.2', '>=٣', '>= 1!2', '==', '<1,>', '~=1', '>=6.2,', 'x']
PROPERTIES = ['os_distro', 'hw_machine_type', 'img_owner_id', 'os_command_line']


def texts(keys):
    return st.dictionaries(st.sampled_from(keys) | nonsense, nonsense, max_size=4)


requests = st.builds(
    factories.request,
    extra_specs=texts(SPECS),
    scheduler_hints=st.dictionaries(
        st.sampled_from(HINTS) | nonsense, st.lists(nonsense, max_size=2), max_size=3
    ),
    image=st.none() | st.dictionaries(st.sampled_from(PROPERTIES), nonsense),
    availability_zone=st.none() | nonsense,
    project_id=nonsense,
)
aggregates = st.lists(texts(METADATA), max_size=2).map(
    lambda many: tuple(factories.aggregate(n, **m) for n, m in enumerate(many))
)
reported = {
    'aggregates': aggregates,
    'cpu_info': st.sampled_from([None, *UNREADABLE]) | nonsense,
    'pci_stats': st.none() | nonsense,
    'stats': st.dictionaries(
        st.sampled_from(['gpu', 'size', 'vgpu_types']), st.none() | nonsense
    ),
    'hypervisor_type': st.none() | nonsense,
}
host_tables = st.lists(
    st.tuples(strategies.host, st.fixed_dictionaries(reported)), min_size=2, max_size=4
).map(lambda many: strategies.table([{**host, **odd} for host, odd in many]))


@contextlib.contextmanager
def foreseen_of(filter_):
    """Let a filter raise what is foreseen, and nothing else."""
    try:
        yield
    except errors.ExtensionFailed as failed:
        if not isinstance(failed.problem, FORESEEN.get(type(filter_), ())):
            raise


@given(hosts=host_tables, request=requests)
@examples(150)
def test_a_host_passes_or_has_a_reason(hosts, request):
    for filter_ in FILTERS:
        with foreseen_of(filter_):
            check_reasons(filter_, hosts, request)


def check_reasons(filter_, hosts, request):
    survivors, steps = run_filters([filter_], hosts, request)
    rejected = [pair for step in steps for pair in step.reasons(request)]
    for _, reason in rejected:
        assert isinstance(reason, Reason)
        assert reason.code in filter_.codes
        assert reason.text.strip()
    assert len(rejected) + len(survivors) == len(hosts)


@given(hosts=host_tables, request=requests)
@examples(50)
def test_every_host_has_a_weight(hosts, request):
    weighed = weigh(WEIGHERS, hosts, request)
    assert weighed.totals.shape == (len(hosts),)


@given(hosts=host_tables)
@examples(50)
def test_warning_of_any_aggregate_metadata_has_a_text(hosts):
    for warning in Profile(FILTERS, WEIGHERS).config_warnings(hosts.aggregates.values):
        assert warning.text


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | nonsense,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nonsense, inner),
    max_leaves=5,
)
"""What JSON can hold, and a little more."""

HOSTS = factories.hosts(
    hypervisor_version=[8002002, 6002000],
    aggregates=[(factories.aggregate(hw_cpu_cores='٣', os_type='linux'),), ()],
    instance_images=[{'m1': {'os_type': 'linux'}}, {}],
)


@given(
    properties=st.dictionaries(
        st.sampled_from(sorted({*ImageMetaProps.fields, *PRESENT_NAMES})),
        anything | st.sampled_from(VERSIONS),
    )
)
def test_an_image_is_read_or_is_an_invalid_request(properties):
    request = factories.request()
    with contextlib.suppress(errors.InvalidRequest):
        request.image = ImageMeta.from_dict({'properties': properties})
    check_reasons(ImagePropertiesFilter('x86_64'), HOSTS, request)
    check_reasons(AggregateImagePropertiesIsolation(), HOSTS, request)
    weigh([ImagePropertiesWeigher(1.0)], HOSTS, request)


@given(query=anything)
def test_any_query_is_answered_or_raises_what_is_foreseen(query):
    try:
        text = json.dumps(query)
    except UnicodeEncodeError:
        return
    request = factories.request(scheduler_hints={'query': [text]})
    filter_ = json_query.JsonFilter()
    with foreseen_of(filter_):
        run_filters([filter_], factories.hosts(2), request)
