# SPDX-License-Identifier: Apache-2.0
"""Extra specs that the aggregates of a host must satisfy."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.aggregate import (
    AggregateInstanceExtraSpecsFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = AggregateInstanceExtraSpecsFilter()
SCOPE = 'aggregate_instance_extra_specs:'


def host_in(*metadata):
    aggregates = tuple(
        factories.aggregate(number, **values) for number, values in enumerate(metadata)
    )
    return factories.hosts(aggregates=[aggregates])


@cases(
    'metadata, extra_specs, expected',
    ('nothing asked', [], {}, True),
    ('no scope', [{'ssd': 'true'}], {'ssd': 'true'}, True),
    ('the scope', [{'ssd': 'true'}], {f'{SCOPE}ssd': 'true'}, True),
    ('in no aggregate', [], {'ssd': 'true'}, False),
    (
        'other scopes',
        [],
        {'capabilities:ssd': 'true', 'hw:cpu_policy': 'dedicated'},
        True,
    ),
    ('an alternative', [{'opt': 'a,b'}], {'opt': 'b'}, True),
    ('the requirement is not split', [{'opt': 'a,b'}], {'opt': 'a,b'}, False),
    ('two aggregates', [{'m': 'a'}, {'m': 'b'}], {'m': 'a'}, True),
    ('another value satisfies it', [{'m': 'a,b'}], {'m': 's!= a'}, True),
    ('a number', [{'m': '5'}], {'m': '>= 3'}, True),
    ('split at the first colon', [{'a:b': 'x'}], {f'{SCOPE}a:b': 'x'}, True),
    ('empty', [{'m': ''}], {'m': ''}, True),
    ('all must hold', [{'m': '1', 'n': '1'}], {'m': '1', 'n': '2'}, False),
)
def test_extra_specs(metadata, extra_specs, expected):
    request = factories.request(extra_specs=extra_specs)
    assert_verdict(FILTER, host_in(*metadata), request, expected)


def test_a_number_compared_with_text_raises_as_in_nova():
    request = factories.request(extra_specs={'m': '>= 3'})
    with pytest.raises(ValueError):
        FILTER.apply(host_in({'m': 'five'}), request)


@pytest.mark.parametrize(
    ('metadata', 'extra_specs', 'code', 'text'),
    [
        (
            [{'m': '1'}],
            {'m': '1', 'n': '2'},
            Code.EXTRA_SPEC_MISSING,
            'extra spec n is not in an aggregate',
        ),
        ([{'m': 'b,a'}], {'m': 'c'}, Code.EXTRA_SPEC_DIFFERS, 'm is a, b, not c'),
        ([], {}, Code.REJECTED, 'rejected'),
    ],
)
def test_why(metadata, extra_specs, code, text):
    host = host_in(*metadata).state(0)
    reason = FILTER.why(host, factories.request(extra_specs=extra_specs))
    assert reason == (code, text)
