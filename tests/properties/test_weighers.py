# SPDX-License-Identifier: Apache-2.0
"""The contract that every installed weigher keeps, and nova's arithmetic."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.pipeline import descending, weigh
from novasched.scheduler.weighers.image_props import ImagePropertiesWeigher
from novasched.scheduler.weighers.metrics import MetricsWeigher
from tests.properties.installed import WEIGHERS, contents, name
from tests.properties.strategies import host_tables, requests
from tests.support.tables.examples import examples

# Two that do nothing with the defaults, and all.
BUSY = [
    ImagePropertiesWeigher(1.0, ['os_distro=2', 'hw_machine_type=-0.3']),
    MetricsWeigher(1.0, ['cpu.frequency=3', 'cpu.percent=-0.1'], required=False),
]
ALL = [*WEIGHERS, *BUSY]

every_weigher = pytest.mark.parametrize('weigher', ALL, ids=name)
multipliers = st.lists(st.floats(-1e9, 1e9), min_size=len(ALL), max_size=len(ALL))


def reference_multiplier(weigher, host):
    """Return what nova multiplies with, in plain floats."""
    if name(weigher) == 'BuildFailureWeigher':
        return -1 * configured_multiplier(weigher, host)
    return configured_multiplier(weigher, host)


def configured_multiplier(weigher, host):
    if weigher.option is None:
        return weigher.multiplier
    values = {
        a.metadata[weigher.option]
        for a in host.aggregates
        if weigher.option in a.metadata
    }
    try:
        return min(map(float, values)) if values else weigher.multiplier
    except ValueError:
        return weigher.multiplier


def reference_totals(weighers, hosts, request):
    """Sum as nova does: host by host, in plain floats. Nova: weights.py."""
    states = list(hosts.states())
    totals = [0.0] * len(states)
    if len(states) < 2:
        return totals
    for weigher in weighers:
        raw = [weigher.weigh(h.as_table(), request).tolist()[0] for h in states]
        if weigher.minval is not None:
            raw = [max(value, weigher.minval) for value in raw]
        if weigher.maxval is not None:
            raw = [min(value, weigher.maxval) for value in raw]
        low = float(min(raw) if weigher.minval is None else weigher.minval)
        high = float(max(raw) if weigher.maxval is None else weigher.maxval)
        for i, value in enumerate(raw):
            normalized = 0 if low == high else (value - low) / (high - low)
            totals[i] += reference_multiplier(weigher, states[i]) * normalized
    return totals


def with_multipliers(values):
    weighers = [copy.copy(weigher) for weigher in ALL]
    for weigher, multiplier in zip(weighers, values, strict=True):
        weigher.multiplier = multiplier
    return weighers


@given(hosts=host_tables, request=requests, values=multipliers)
@examples(100)
def test_sums_equal_novas_arithmetic(hosts, request, values):
    weighers = with_multipliers(values)
    expected = reference_totals(weighers, hosts, request)
    assert weigh(weighers, hosts, request).totals.tolist() == expected


@given(hosts=host_tables, request=requests, values=multipliers, order=st.randoms())
@examples(50)
def test_permuted_hosts_have_permuted_weights(hosts, request, values, order):
    weighers = with_multipliers(values)
    positions = list(range(len(hosts)))
    order.shuffle(positions)
    totals = weigh(weighers, hosts, request).totals
    permuted = weigh(weighers, hosts[positions], request).totals
    assert permuted.tolist() == totals[positions].tolist()


@every_weigher
@given(hosts=host_tables, request=requests)
@examples(30)
def test_table_and_host_grain_agree(weigher, hosts, request):
    tables = [host.as_table() for host in hosts.states()]
    raw = [weigher.weigh(table, request).tolist()[0] for table in tables]
    assert weigher.weigh(hosts, request).tolist() == raw
    factors = [weigher.multipliers(table).tolist()[0] for table in tables]
    assert weigher.multipliers(hosts).tolist() == factors


@every_weigher
@given(hosts=host_tables, request=requests)
@examples(15)
def test_hosts_and_request_stay_as_they_were(weigher, hosts, request):
    before = contents(hosts), request.obj_to_primitive()
    weigh([weigher], hosts, request)
    assert (contents(hosts), request.obj_to_primitive()) == before
    assert request.obj_what_changed() == set()


@given(totals=st.lists(st.floats(allow_nan=False) | st.sampled_from([1.0, -0.0])))
def test_ranking_is_pythons_stable_sort(totals):
    positions = sorted(range(len(totals)), key=totals.__getitem__, reverse=True)
    assert descending(np.array(totals, float)).tolist() == positions
