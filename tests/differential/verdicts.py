# SPDX-License-Identifier: Apache-2.0
"""Where we differ from nova on purpose, and what we ask it instead.

Of such a cloud nova decides on another one, on which the two must agree again: so
that the rest of it is compared. The numbers are those of the quirks in nova that the
documentation of filters and weighers lists.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

Cloud = dict[str, Any]


class Verdict(NamedTuple):
    """A quirk of nova that we do without.

    ``applies`` tells the clouds on which it shows; ``mend`` changes one into the
    cloud on which nova does what we do.
    """

    quirk: str
    about: str
    applies: Callable[[Cloud], bool]
    mend: Callable[[Cloud], None]


def _hints_are_null(cloud):
    return cloud['request'].get('scheduler_hints', {}) is None


def _give_no_hints(cloud):
    cloud['request']['scheduler_hints'] = {}


def _lacks_supported_instances(cloud):
    return any(
        host.get('supported_instances', ()) is None and host['uuid']
        for host in cloud['hosts']
    )


def _give_no_supported_instances(cloud):
    for host in cloud['hosts']:
        if host['uuid'] and host.get('supported_instances', ()) is None:
            host['supported_instances'] = []


def _asks_for_address_bits(cloud):
    return 'hw_maxphysaddr_bits' in (cloud['request']['image'] or ())


def _decode_cpu_info(cloud):
    for host in cloud['hosts']:
        try:
            found = json.loads(host.get('cpu_info') or '')
        except ValueError:
            found = {}
        if host['uuid']:
            host['cpu_info'] = found


def _group_has_no_policies(cloud):
    return not (cloud['request']['group'] or {}).get('has_policies', True)


def _give_policies(cloud):
    del cloud['request']['group']['has_policies']


VERDICTS = (
    Verdict(
        'Q2',
        'null scheduler_hints are no hints; nova raises AttributeError',
        _hints_are_null,
        _give_no_hints,
    ),
    Verdict(
        'Q3',
        'a node that never reported supported_instances has none; nova cannot load it',
        _lacks_supported_instances,
        _give_no_supported_instances,
    ),
    Verdict(
        'Q9',
        'address bits are read from cpu_info decoded; nova raises AttributeError',
        _asks_for_address_bits,
        _decode_cpu_info,
    ),
    Verdict(
        'Q10',
        'a group without policies has its policy; nova raises ObjectActionError',
        _group_has_no_policies,
        _give_policies,
    ),
)


def _verdicts_on(cloud):
    return [verdict for verdict in VERDICTS if verdict.applies(cloud)]


def quirks_of(cloud):
    """Return the numbers of the quirks that show on a cloud."""
    return [verdict.quirk for verdict in _verdicts_on(cloud)]


def mended(cloud):
    """Return the cloud to ask nova about."""
    found = _verdicts_on(cloud)
    if not found:
        return cloud
    made = copy.deepcopy(cloud)
    for verdict in found:
        verdict.mend(made)
    return made
