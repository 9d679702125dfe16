# SPDX-License-Identifier: Apache-2.0
"""Answers of commands and the console, with the fields of their JSON.

docs/reference has every field. A field that is added has a default, so that the JSON of
an older console can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from novasched.decisions.listing import ShownDecision
from novasched.inspection.questions.explain import Explanation
from novasched.runtime.typed_json import omitted_field


@dataclass(frozen=True)
class Stranded:
    """Amount of a resource that no server of the flavor can use, the reason, and the
    number of hosts that have it."""

    why: str
    hosts: int
    amount: int


@dataclass(frozen=True)
class Amounts:
    """What is free of a resource, and what of it servers of the flavor could use."""

    free: int
    usable: int
    stranded: Sequence[Stranded] | None = omitted_field()

    @property
    def unusable_share(self) -> float:
        return max(0, self.free - self.usable) / self.free if self.free else 0.0


@dataclass(frozen=True)
class LargestHost:
    host: str
    slots: int


@dataclass(frozen=True)
class SlotsRow:
    """The slots of a flavor on some hosts."""

    flavor: str
    by: str | None = None  # the zone, aggregate, cell or host; None for all hosts
    slots: int = 0
    hosts: int = 0  # how many have slots
    resources: Mapping[str, Amounts] = field(default_factory=dict)
    largest: LargestHost | None = None
    refused: str | None = omitted_field()  # why the flavor cannot be counted

    def without_stranded(self) -> SlotsRow:
        """Return the row without what cannot be used."""
        found = {n: replace(a, stranded=None) for n, a in self.resources.items()}
        return replace(self, resources=found)


@dataclass(frozen=True)
class CapacityReport:
    """The answer of ``novasched capacity``."""

    as_of: str
    placement_age_s: float
    cells_left_out: Mapping[str, int]  # how many hosts each has
    hosts: int
    cells: int
    not_counted: Mapping[str, int]  # how many hosts are disabled, or down
    rows: Sequence[SlotsRow]


@dataclass(frozen=True)
class Resource:
    total: int
    reserved: int
    ratio: float
    max_unit: int
    used: int
    free: int


@dataclass(frozen=True)
class ChildProvider:
    """A resource provider below the provider of a node."""

    uuid: str
    resources: Mapping[str, Resource]
    traits: Sequence[str]


@dataclass(frozen=True)
class NamedAggregate:
    name: str | None
    properties: Mapping[str, str]


@dataclass(frozen=True)
class PagePool:
    size_kb: int
    total: int
    free: int


@dataclass(frozen=True)
class NumaNode:
    node: int
    cpus: int  # shared
    cpus_used: int
    dedicated_cpus: int
    dedicated_free: Sequence[int]
    memory_mb: int
    memory_free_mb: int
    pages: Sequence[PagePool]


@dataclass(frozen=True)
class Devices:
    vendor_id: str | None
    product_id: str | None
    numa_node: int | None
    free: int


@dataclass(frozen=True)
class HostNode:
    node: str
    uuid: str
    cell: str
    enabled: bool
    disabled_reason: str | None
    up: bool
    forced_down: bool
    heard_from: str | None
    aggregates: Sequence[NamedAggregate]
    instances: int
    io_ops: int
    traits: Sequence[str]
    resources: Mapping[str, Resource]
    children: Sequence[ChildProvider]
    numa: Sequence[NumaNode]
    devices: Sequence[Devices]

    @property
    def providers(self) -> Sequence[HostNode | ChildProvider]:
        return (self, *self.children)


@dataclass(frozen=True)
class HeldPages:
    node: int
    size_kb: int
    count: int


@dataclass(frozen=True)
class Holder:
    """A server, and what it holds of its host."""

    server: str
    name: str | None
    flavor: str | None
    state: str | None
    vcpus: int
    memory_mb: int
    pages: Sequence[HeldPages]
    pcpu: Mapping[str, Sequence[int]]  # dedicated CPUs by NUMA node
    pci: int  # how many devices
    since: str | None
    decision: str | None  # the id of the last one

    def held(self, kind: str) -> int:
        """Return how many pages, dedicated CPUs or devices the server holds."""
        if kind == 'pages':
            return sum(pages.count for pages in self.pages)
        return sum(map(len, self.pcpu.values())) if kind == 'pcpu' else self.pci


@dataclass(frozen=True)
class FlavorSlots:
    """How many more servers of a flavor a host takes, and why it takes none."""

    flavor: str | None
    slots: int
    why: str | None


@dataclass(frozen=True)
class ChoosingDecision:
    id: str
    at: str
    flavor: str


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """The answer of ``novasched host``."""

    as_of: str
    host: str
    placement_problems: Sequence[str] = ()  # why something of placement is missing
    nodes: Sequence[HostNode]
    holders: Sequence[Holder]
    servers: int
    slots: Sequence[FlavorSlots] | None  # None if placement does not answer
    decisions: Sequence[ChoosingDecision]
    cells_left_out: Sequence[str]
    unanswered: Sequence[str] | None = omitted_field()  # schedulers; of a console


@dataclass(frozen=True)
class HostCondition:
    name: str
    passes: bool
    code: str = ''
    text: str = ''


@dataclass(frozen=True)
class BeatenBy:
    """The best host, and what it is ahead by, for each weigher; None is no number."""

    host: str
    by: float | None
    weighers: Mapping[str, float | None]


@dataclass(frozen=True)
class HeldBy:
    """The servers that hold what a host lacks: pages, pcpu or pci."""

    holding: str
    servers: Sequence[Holder]


@dataclass(frozen=True, kw_only=True)
class WhyNotReport:
    """The answer of ``novasched why-not``."""

    host: str
    node: str
    zone: str
    cell: str
    enabled: bool
    up: bool
    heard_from_s: int | None
    fits: bool
    conditions: Sequence[HostCondition]
    rank: int | None = None  # None if it is not among the best
    of: int | None = None
    beaten_by: BeatenBy | None = None
    held_by: HeldBy | None = None
    notes: Sequence[str]
    cells_left_out: Sequence[str]

    @property
    def failing(self) -> list[HostCondition]:
        return [condition for condition in self.conditions if not condition.passes]


@dataclass(frozen=True)
class PlacedServer:
    server: str
    name: str  # '' of a new server
    flavor: str
    host: str
    node: str
    alternates: Sequence[str]


@dataclass(frozen=True)
class UnplacedServers:
    """Servers of a request without a place, the first by its uuid, and the reason."""

    server: str
    name: str
    flavor: str
    count: int
    explanation: Explanation | None  # None if nothing could be decided
    error: str | None = omitted_field()


@dataclass(frozen=True)
class HelpfulChange:
    """A change, and the hosts that then fit; or else what they fail, too."""

    change: str
    hosts: int
    also_fail: str


@dataclass(frozen=True)
class TakenHost:
    host: str
    servers: int
    room: int | None  # for more of them; None if it is not simple to count
    alternates: Sequence[str]


@dataclass(frozen=True)
class DrainedHost:
    host: str
    fits: int
    asked: int


@dataclass(frozen=True)
class Tightest:
    """The flavor of which the fewest more have a place after a drain."""

    flavor: str
    zone: str | None
    slots: int


@dataclass(frozen=True)
class PlanReport:
    """The answer of a dry run."""

    fits: int
    asked: int
    offered: int | None
    placed: Sequence[PlacedServer]
    unplaced: Sequence[UnplacedServers]
    changes: Sequence[HelpfulChange]
    notes: Sequence[str]
    as_of: str
    placement_age_s: float
    cells_left_out: Sequence[str]
    seed: int
    plan_id: str

    @property
    def all_fit(self) -> bool:
        return self.fits == self.asked


@dataclass(frozen=True)
class MovePlan(PlanReport):
    """The answer of ``novasched plan move``."""

    explanations: Sequence[Explanation] | None = omitted_field()


@dataclass(frozen=True, kw_only=True)
class BootPlan(PlanReport):
    """The answer of ``novasched plan boot``."""

    hosts: Sequence[TakenHost]
    explanations: Sequence[Explanation] | None = omitted_field()


@dataclass(frozen=True, kw_only=True)
class DrainPlan(PlanReport):
    """The answer of ``novasched plan drain``; ``hosts`` of a drain of one of them."""

    tightest: Tightest | None
    hosts: Sequence[DrainedHost] | None = omitted_field()
    explanations: Sequence[Explanation] | None = omitted_field()


AnyPlan = BootPlan | MovePlan | DrainPlan
PLANS: Mapping[str, type[AnyPlan]] = {
    '/plan': BootPlan,
    '/plan/move': MovePlan,
    '/plan/drain': DrainPlan,
}
"""Types of plans, by their places in a console."""


@dataclass(frozen=True)
class ListedHost:
    host: str
    cell: str
    zone: str
    aggregates: Sequence[str]
    state: str  # enabled, disabled or down
    reason: str | None
    used: Mapping[str, tuple[int, int]]  # amount and capacity, by class
    servers: int
    slots: int | None  # of the flavor that is asked about


@dataclass(frozen=True)
class HostsReport:
    """A page of hosts that meet criteria, and values to choose hosts by."""

    hosts: Sequence[ListedHost]
    total: int
    page: int
    pages: int
    cells: Sequence[str]
    zones: Sequence[str]
    aggregates: Sequence[str]
    cells_left_out: Sequence[str] = ()
    problem: str | None = None  # why it is unknown how much is used


@dataclass(frozen=True)
class HostGroup:
    """Hosts of a zone and an aggregate, each with its slots, None if it is disabled or
    down."""

    zone: str
    aggregate: str
    hosts: Sequence[tuple[str, int | None]]


@dataclass(frozen=True)
class HeatReport:
    """The slots of a flavor on all hosts."""

    flavor: str
    groups: Sequence[HostGroup]
    cells_left_out: Sequence[str] = ()


@dataclass(frozen=True)
class LostClaims:
    """Claims that were lost to other schedulers, and how long ago the last was."""

    count: int
    age_s: float


@dataclass(frozen=True)
class OutageSummary:
    """An outage, of all workers that wait for the service."""

    service: str
    problem: str
    since_s: float
    waiting: int
    in_vain: int  # requests that timed out


@dataclass(frozen=True)
class BlockerCount:
    """A filter that left no host, and its most frequent reason; or else a reason."""

    blocker: str
    count: int
    code: str


@dataclass(frozen=True)
class CellState:
    cell: str
    age_s: float | None  # of what is known of its hosts
    left_out: bool


@dataclass(frozen=True)
class Overview:
    """The answer of ``novasched top``: the last seconds of all schedulers."""

    until: str | None
    window_s: float
    schedulers: Sequence[str]
    unanswered: Sequence[str]
    without_log: Sequence[str]
    requests_per_s: float
    in_flight: float  # mean over the window
    results: Mapping[str, int]
    lost_claims: Mapping[str, LostClaims]  # by outcome
    records_lost: int
    took_ms: Mapping[str, float | None]
    placement_ms: Mapping[str, float | None]
    outages: Sequence[OutageSummary]
    picks: Mapping[str, float]
    blockers: Sequence[BlockerCount]
    minutes: Sequence[Mapping[str, Any]]  # ``at``, and numbers by result
    cells: Sequence[CellState]  # as the scheduler knew them that decided last
    newest: Sequence[ShownDecision]
