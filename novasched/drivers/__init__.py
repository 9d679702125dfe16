# SPDX-License-Identifier: Apache-2.0
"""Drivers choose the hosts: base class, context, request and result."""

from __future__ import annotations

import abc
import random
from dataclasses import dataclass, field, replace
from typing import Any, Self

from oslo_config import cfg

from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import ScheduleRequest
from novasched.cluster.assumed import AssumedInstances
from novasched.cluster.view import ClusterView
from novasched.drivers.plugin_timing import PluginTiming
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import KnownRoots, Placement
from novasched.scheduler.pipeline import Profile

__all__ = [
    'ClaimedRequest',
    'Driver',
    'DriverContext',
    'ScheduleRequest',
    'ScheduleResult',
]

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            'default_availability_zone',
            default='nova',
            help='Availability zone of hosts that no aggregate puts into one.',
        )
    ],
    'scheduler': [
        cfg.IntOpt(
            'max_attempts',
            default=3,
            min=1,
            deprecated_name='scheduler_max_attempts',
            deprecated_group='DEFAULT',
            help='Hosts that may be tried for an instance: the selected one and '
            'this many less one alternates.',
        ),
    ],
    'novasched': [
        cfg.BoolOpt(
            'enforce_groups',
            default=True,
            help='Verify after each claim that the policy of the server group still '
            'holds. If a concurrent claim of the same group breaks affinity or '
            'anti-affinity, roll the claim back and choose another host. False, as in '
            'nova: concurrent requests may break the policy, and computes refuse what '
            'they notice.',
        ),
        cfg.BoolOpt(
            'enforce_capacity',
            default=True,
            help='Read back the usage of a provider that is nearly full after a claim '
            'on it. Placement may have accepted racing claims: if the provider is over '
            'capacity, roll the claim back and choose another host. False, as in nova: '
            'it stays over capacity.',
        ),
        cfg.BoolOpt(
            'own_alternates',
            default=False,
            help='Give the members of an anti-affinity group that are placed by one '
            'request alternates that no other of them has, the best in turn. False, as '
            'in nova: they have the same, and of two that fail over to one host, the '
            'compute refuses the second. There may be fewer alternates for each.',
        ),
    ],
}


@dataclass(frozen=True)
class DriverContext:
    """What a driver works with.

    Without ``assumed``, what was picked is not remembered. ``own_alternates``,
    ``enforce_groups`` and ``enforce_capacity``: see OPTS.
    """

    profile: Profile
    view: ClusterView
    placement: Placement
    rng: random.Random
    max_attempts: int = 3
    default_availability_zone: str = 'nova'
    watch: PluginTiming = field(default_factory=PluginTiming)
    assumed: AssumedInstances | None = None
    own_alternates: bool = False
    enforce_groups: bool = True
    enforce_capacity: bool = True
    roots: KnownRoots = field(default_factory=KnownRoots)

    @classmethod
    def from_conf(
        cls,
        conf: Any,
        profile: Profile,
        view: ClusterView,
        placement: Placement,
        rng: random.Random,
        watch: PluginTiming | None = None,
        assumed: AssumedInstances | None = None,
    ) -> Self:
        """Add what the options say."""
        return cls(
            profile=profile,
            view=view,
            placement=placement,
            rng=rng,
            max_attempts=conf.scheduler.max_attempts,
            default_availability_zone=conf.default_availability_zone,
            assumed=assumed,
            own_alternates=conf.novasched.own_alternates,
            enforce_groups=conf.novasched.enforce_groups,
            enforce_capacity=conf.novasched.enforce_capacity,
            watch=watch or PluginTiming.from_conf(conf),
        )

    def claimless(self) -> Self:
        """Return a context in which picks are not claimed: none is remembered, and
        neither groups nor capacity are verified after it."""
        return replace(self, assumed=None, enforce_groups=False, enforce_capacity=False)


@dataclass(frozen=True)
class ScheduleResult:
    """The answer: per instance the selected host, then its alternates.

    ``request`` is the one of the last instance, its group grown by all hosts, its
    NUMA nodes where they are on the host.
    """

    selections: list[list[Selection]]
    request: RequestSpec


class Driver(abc.ABC):
    """Chooses a host per instance and claims it.

    Where USES_ALLOCATION_CANDIDATES is false, placement is not asked, no prefilter
    runs and nothing is claimed. Where VERIFIES_HOSTS is false, all cells are looked at
    before each request.
    """

    USES_ALLOCATION_CANDIDATES: bool = True
    VERIFIES_HOSTS: bool = False

    def __init__(self, context: DriverContext) -> None:
        self.context = context

    @abc.abstractmethod
    def select_destinations(self, request: ScheduleRequest) -> ScheduleResult:
        """Return the selections. Hosts of a ClaimedRequest are claimed by its claims.

        The caller has looked at the cells, and undoes the claims when this raises.
        Raises errors.NoValidHost when there is no host for every instance.
        """

    def run_periodic_tasks(self, context: RequestContext) -> None:  # noqa: B027
        """Run periodic tasks; a driver without any does nothing."""
