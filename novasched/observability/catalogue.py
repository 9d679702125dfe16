# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, kind, labels, and what it means.

After their prefix, names and labels are kube-scheduler's where it has the same thing.
No label names a host, an instance or a project: there would be no end of them.
"""

from __future__ import annotations

from typing import NamedTuple

from novasched.decisions.comparison import Cause, Verdict
from novasched.scheduler.outcomes import REASONS, Outcome

PREFIX = 'novasched'


def _powers(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(float(f'{first * factor**power:.6g}') for power in range(count))


REQUEST_BUCKETS_S = _powers(0.001, 2, 16)
PLUGIN_BUCKETS_S = _powers(0.00001, 4, 10)
CANDIDATE_BUCKETS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)


class Metric(NamedTuple):
    """One metric."""

    name: str
    doc: str
    labels: tuple[str, ...] = ()  # their possible values stand in doc
    buckets: tuple[float, ...] = ()  # of histograms only
    across: str = ''
    """Of gauges only: how workers' values merge, as in prometheus_client."""
    values: tuple[str, ...] = ()
    """Of the only label of a counter, each shown from the start. Prometheus sees no
    change in a counter that first appears as 1."""

    @property
    def kind(self) -> str:
        """counter, gauge or histogram."""
        if self.buckets:
            return 'histogram'
        return 'gauge' if self.across else 'counter'

    def called(self, prefix: str) -> str:
        """Return the name with another prefix."""
        return prefix + self.name.removeprefix(PREFIX)


class Recorder:
    """Base of what keeps the metrics of the catalogue; keeps nothing itself."""

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter, or to a gauge."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""


ATTEMPTS = Metric(
    'novasched_schedule_attempts_total',
    'Requests for destinations, by result: scheduled, unschedulable (there was no '
    'valid host) or error.',
    labels=('result',),
    values=('scheduled', 'unschedulable', 'error'),
)
SERVERS_PLACED = Metric(
    'novasched_servers_placed_total',
    'Servers that a host was chosen for, in requests that succeeded: a request for '
    'eight servers counts eight. Where the compute refuses a server later, it counts '
    'again when it is asked for again.',
)
ATTEMPT_SECONDS = Metric(
    'novasched_scheduling_attempt_duration_seconds',
    'From the start of a request to its answer, by result, as above.',
    labels=('result',),
    buckets=REQUEST_BUCKETS_S,
)
ALGORITHM_SECONDS = Metric(
    'novasched_scheduling_algorithm_duration_seconds',
    'All filters and weighers of one decision. A request makes a decision for each '
    'server, and one more for the alternates of several.',
    buckets=REQUEST_BUCKETS_S,
)
STAGE_SECONDS = Metric(
    'novasched_framework_extension_point_duration_seconds',
    'A stage of a request, by extension_point: PreFilter (the prefilters), Query '
    '(placement is asked for candidates), Refresh (the cluster view is brought up '
    'to date), Filter and Score (all filters, all weighers of one decision), Claim '
    'and Undo (one claim in placement, and taking it back).',
    labels=('extension_point',),
    buckets=REQUEST_BUCKETS_S,
)
PLUGIN_SECONDS = Metric(
    'novasched_plugin_execution_duration_seconds',
    'One prefilter, filter or weigher, by plugin (its class or function) and '
    'extension_point: PreFilter, Filter or Score. One of ten is measured, as '
    'kube-scheduler does.',
    labels=('plugin', 'extension_point'),
    buckets=PLUGIN_BUCKETS_S,
)
UNSCHEDULABLE = Metric(
    'novasched_unschedulable_decisions_total',
    'Decisions that left no host, by plugin: the filter that took the last one, or '
    'none if there was no host to begin with.',
    labels=('plugin',),
)
UNSCHEDULABLE_REQUESTS = Metric(
    'novasched_unschedulable_total',
    'Requests without a valid host, by blocker (what ended it: filters, no-candidates, '
    'claims and others, as records of decisions have it), plugin (the filter or '
    'prefilter) and code (its most frequent reason).',
    labels=('blocker', 'plugin', 'code'),
)
HOSTS_REJECTED = Metric(
    'novasched_hosts_rejected_total',
    'Hosts that a filter rejected, by plugin and code. Of several servers of a request '
    'the first and the last decision count; of scheduled requests none, unless '
    '[novasched] decisions_keep is all.',
    labels=('plugin', 'code'),
)
DECISION_RECORDS = Metric(
    'novasched_decision_records_total',
    'Records of decisions, by outcome: written, reduced (too many came at once, only '
    'the head is kept) or lost.',
    labels=('outcome',),
    values=('written', 'reduced', 'lost'),
)
HISTORY_REQUESTS = Metric(
    'novasched_history_requests_total',
    'Requests of the history, by outcome: written or dropped.',
    labels=('outcome',),
    values=('written', 'dropped'),
)
DECISION_RECORD_SECONDS = Metric(
    'novasched_decision_record_seconds',
    'Making the record of one request, beside the requests.',
    buckets=PLUGIN_BUCKETS_S,
)
DECISION_STORE_BYTES = Metric(
    'novasched_decision_store_bytes',
    'Size of all files of the decision log of this machine.',
    across='livemax',
)
DIAGNOSES = Metric(
    'novasched_placement_diagnoses_total',
    'Diagnoses of why placement had no candidates, by result: made, or none where '
    'nothing was known of placement.',
    labels=('result',),
    values=('made', 'none'),
)
CANDIDATES = Metric(
    'novasched_candidates',
    'Allocation candidates that placement offered for one query.',
    buckets=CANDIDATE_BUCKETS,
)
TRUNCATED = Metric(
    'novasched_candidates_truncated_total',
    'Answers of placement that were as long as the limit of the query: there may '
    'have been more candidates.',
)
QUERIES = Metric(
    'novasched_candidate_queries_total',
    'Queries for candidates, by result: found, none or failed.',
    labels=('result',),
    values=('found', 'none', 'failed'),
)
CLAIMS = Metric(
    'novasched_claims_total',
    'Claims in placement, by result: claimed, conflict (HTTP 409: someone else was '
    'faster, or there is no room any more), refused (any other answer), unknown (no '
    'answer) or error.',
    labels=('result',),
    values=(
        Outcome.CLAIMED,
        Outcome.CONFLICT,
        Outcome.REFUSED,
        Outcome.UNKNOWN,
        'error',
    ),
)
DECIDED_AGAIN = Metric(
    'novasched_decided_again_total',
    f'How often requests decided again, by reason: {", ".join(REASONS)}. '
    'docs/reference/decisions.md says what each means.',
    labels=('reason',),
    values=REASONS,
)
GROUP_YIELDS = Metric(
    'novasched_group_yields_total',
    'Claims that were undone before the answer, as another request had claimed for the '
    'same server group what would break its policy, or picked the same NUMA cell or '
    'device; another host was chosen then.',
)
TAPPED = Metric(
    'novasched_shadow_tapped_total',
    'Messages for nova-scheduler, requests and casts, that a shadow tapped.',
)
TAP_GAPS = Metric(
    'novasched_shadow_gaps_total',
    'Times in which a shadow did not tap all requests: the broker was away, or the '
    'shadow was paused until its queue was full.',
)
TAP_GAP_SECONDS = Metric(
    'novasched_shadow_gap_seconds_total',
    'How long these times were, together.',
)
COMPARED = Metric(
    'novasched_shadow_compared_total',
    "Servers for which a shadow compared its choice with nova's, by verdict: equal, "
    'alike, better, worse, rejected, ours_only, nova_only or unknown.',
    labels=('verdict',),
    values=tuple(Verdict),
)
DIFFERENCES = Metric(
    'novasched_shadow_differences_total',
    'Servers for which a shadow and nova chose otherwise, by cause: filter, '
    'not_offered, chance, same_request, other_request, late, no_candidates, '
    'nova_filters, nova_error, truncated, weighers or unknown. '
    'docs/reference/shadow.md says what each means.',
    labels=('cause',),
    values=tuple(Cause),
)
PICKS = Metric(
    'novasched_picks_total',
    'Picks, and their undos, that schedulers tell each other, by result: sent, lost '
    '(the broker was unavailable), received (from another process) or refused (it '
    'could not be read).',
    labels=('result',),
    values=('sent', 'lost', 'received', 'refused'),
)
PICKS_ASSUMED = Metric(
    'novasched_picks_assumed',
    'Picks of any scheduler that a worker remembers, as placement does not count what '
    'they take.',
    across='livemax',
)
PICKS_AGE = Metric(
    'novasched_oldest_pick_seconds',
    'How long the oldest of them has waited for a row of its host that shows it; after '
    '60 s it is forgotten.',
    across='livemax',
)
CAPACITY_YIELDS = Metric(
    'novasched_capacity_yields_total',
    'Claims that were undone before the answer, as placement had let claims through '
    'that together put a provider over its capacity; another host was chosen then.',
)
CLAIM_LOST_TIME = Metric(
    'novasched_claim_lost_timestamp_seconds',
    'When a claim was last lost to another request, as seconds since 1970, by outcome: '
    'conflict (placement refused it), yielded (it was undone for a server group) or '
    'overfull (it was undone as a provider was over capacity).',
    labels=('outcome',),
    across='livemax',
)
COPY_AGE = Metric(
    'novasched_mirror_age_seconds',
    'How old the oldest copy of placement among the workers is, where candidates come '
    'from one; -1: a worker has none yet.',
    across='livemax',
)
COPY_PROVIDERS = Metric(
    'novasched_mirror_providers',
    'Resource providers in a copy of placement.',
    across='livemax',
)
COPY_SECONDS = Metric(
    'novasched_mirror_refresh_duration_seconds',
    'One look at placement for what has changed, until the copy shows it.',
    buckets=REQUEST_BUCKETS_S,
)
COPY_DIFFERENCES = Metric(
    'novasched_mirror_differences_total',
    'Resource providers that a full read showed to be otherwise than the copy had '
    'them, though nothing said that they had changed. It should stay 0.',
)
COPY_VOID_PICKS = Metric(
    'novasched_mirror_void_picks_total',
    'Hosts that were picked from the copy and, looked at in placement right before the '
    'claim, were found to be no candidates any more. Another host was picked then.',
)
COPY_FALLBACKS = Metric(
    'novasched_mirror_fallbacks_total',
    'Queries for candidates that placement was asked in the place of the copy, by '
    'reason: unusable (the copy is not there, too old or broken), not_read (it could '
    'not be brought up to date when there was no candidate), query (what was asked '
    'is not computed: ports with resources, an unknown trait or resource class) or '
    'defect (the search itself failed: the log has the traceback).',
    labels=('reason',),
    values=('unusable', 'not_read', 'query'),
)
CELL_TIME = Metric(
    'novasched_cell_state_timestamp_seconds',
    'When what the worker that is furthest behind knows of a cell was asked for, as '
    'seconds since 1970, by cell: its name, or its uuid. 0: the cell is gone or '
    'disabled.',
    labels=('cell',),
    across='livemin',
)
CELL_AGE = Metric(
    'novasched_cell_state_age_seconds',
    'How old that is, by cell. Between requests it grows, to [novasched] '
    'check_interval.',
    labels=('cell',),
    across='livemin',
)
CELL_LEFT_OUT = Metric(
    'novasched_cell_left_out',
    '1 if a worker leaves the cell out of its decisions, because its database is '
    'late or keeps failing, by cell.',
    labels=('cell',),
    across='livemax',
)
OUTAGE_WAITING = Metric(
    'novasched_outage_waiting_requests',
    'Requests that wait for an unavailable service, by service: placement, network '
    'service, API database or database of cell, with the name of the cell.',
    labels=('service',),
    across='livesum',
)
OUTAGE_SECONDS = Metric(
    'novasched_outage_wait_seconds_total',
    'How long requests have waited for an unavailable service, all together, by '
    'service, as above.',
    labels=('service',),
)
OUTAGE_IN_VAIN = Metric(
    'novasched_outage_waits_in_vain_total',
    'Requests whose time was over before the service answered again, by service, as '
    'above.',
    labels=('service',),
)
IN_FLIGHT = Metric(
    'novasched_requests_in_flight',
    'Requests for destinations that are being worked on now.',
    across='livesum',
)
THREADS = Metric(
    'novasched_request_threads',
    'Requests that can be worked on at a time: executor_thread_pool_size of each '
    'worker. As many in flight as threads means that messages wait.',
    across='livesum',
)
MESSAGES_WAITING = Metric(
    'novasched_messages_waiting',
    'Messages that a worker has taken from its queue, and that no thread is free for.',
    across='livesum',
)
OLDEST_WAITING = Metric(
    'novasched_oldest_waiting_message_seconds',
    'How long the oldest of them has waited; 0 when none waits.',
    across='livemax',
)
QUEUE_WAIT_SECONDS = Metric(
    'novasched_queue_wait_seconds',
    'How long a message waited: since the broker got it, if the broker says when '
    '(RabbitMQ: message_interceptors.incoming.set_header_timestamp), else since a '
    'worker took it from the queue.',
    buckets=REQUEST_BUCKETS_S,
)

ALL = tuple(each for each in vars().values() if isinstance(each, Metric))
"""What schedulers show."""

FREE_SLOTS = Metric(
    'novasched_free_slots',
    'How many more servers of a flavor would be placed, one after the other and none '
    'of another, by flavor (those of [novasched_console] flavors) and zone. This one '
    'is shown by novasched-console, at its own /metrics.',
    labels=('flavor', 'zone'),
    across='max',
)
