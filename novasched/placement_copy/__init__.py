# SPDX-License-Identifier: Apache-2.0
"""The copy of placement, by which candidates are found without asking placement.

Placement stays the arbiter: a claim is made there, and a stale copy costs a refusal and
the next host.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from oslo_config import cfg

from novasched import errors
from novasched.providers.contents import Contents, build
from novasched.providers.generation_cache import Generations
from novasched.providers.table import Amounts, ProviderTable

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'candidates',
            default='auto',
            choices=[
                ('auto', 'the copy as soon and as long as there is one'),
                ('mirror', 'the same; where there is none, health warns'),
                ('placement', 'each request asks placement, as with nova'),
            ],
            help="""
Where allocation candidates come from.

Each worker has a copy of placement's resource providers, and computes the candidates of
a request from it. That takes about a millisecond at 10,000 hosts. Every host is
considered: ``[scheduler] max_placement_results`` does not count. Each pick is verified
in placement before it is claimed there. Placement is asked for candidates as long as
there is no copy or it is too old, and for what cannot be computed.

The copy is read from the database that ``[placement_database] connection`` names, or,
without it, from placement's API, by one worker of a machine for all.

Related options:

* ``[placement_database] connection``
* ``[novasched] mirror_max_age``
* ``[novasched] mirror_api_share``
""",
        ),
        cfg.FloatOpt(
            'mirror_max_age',
            min=1.0,
            sample_default='60, or 600 where it is read from the API',
            help='Seconds after which a copy of placement that was not refreshed is '
            'not used any more, as a read of placement hangs. Then placement is asked '
            'for candidates. If a read fails, it is asked at once.',
        ),
        cfg.FloatOpt(
            'mirror_api_share',
            default=0.02,
            min=0.001,
            max=1.0,
            help='The share of one CPU of placement that all workers of a machine '
            'together may use to refresh the copy by the API. It counts only without '
            '``[placement_database] connection``. The first load may take half.',
        ),
        cfg.BoolOpt(
            'placement_diagnosis',
            default=True,
            help="""
Diagnose empty and short answers of GET /allocation_candidates.

Placement gives no reasons. If a request got no candidates, the copy of placement shows
which condition each host failed, at once or after its refresh. No request waits for it.
With ``[novasched] candidates = placement``, a copy is kept for this alone.
""",
        ),
    ]
}


def uses_copy(conf: cfg.ConfigOpts) -> bool:
    """Return whether candidates come from the copy."""
    return bool(conf.novasched.candidates != 'placement')


SOURCE_NAMES = {'database': 'its database', 'api': 'its API'}
"""Sources of a copy, as texts name them."""


@dataclass(frozen=True)
class PlacementCopy:
    """What was read of placement; a later copy with other contents has a higher number.

    ``as_of`` is on the monotonic clock.
    """

    contents: Contents
    table: ProviderTable
    as_of: float
    number: int = 1
    proved: Generations = field(default_factory=dict)  # see GenerationCache

    @classmethod
    def of(
        cls, contents: Contents, as_of: float, before: PlacementCopy | None = None
    ) -> PlacementCopy:
        """Return the copy after the one ``before``. Raises errors.StoreFailed if rows
        do not fit together."""
        if before is not None and contents is before.contents:
            return replace(before, as_of=as_of)
        known = None if before is None else (before.contents, before.table)
        try:
            table = build(contents, known)
        except errors.InconsistentProviders as problem:
            raise errors.StoreFailed(
                'Placement', f'is inconsistent: {problem}'
            ) from problem
        return cls(contents, table, as_of, 1 if before is None else before.number + 1)

    def after(self, taken: Amounts) -> PlacementCopy:
        """Return the copy once more is used: amounts by class by provider."""
        return replace(self, table=self.table.after(taken)) if taken else self

    @property
    def is_exact(self) -> bool:
        """The database was read: requests have the copy refreshed before they fail."""
        return self.contents.members is None

    @property
    def source(self) -> str:
        """What was read: the database or the API."""
        return 'database' if self.is_exact else 'api'

    def aggregates_of(self, provider_uuid: str) -> frozenset[str] | None:
        """Return the known aggregates of a provider; None if the copy lacks it."""
        row = self.table.rows_by_uuid.get(provider_uuid)
        if row is None:
            return None
        members = self.table.members.items()
        return frozenset(uuid for uuid, rows in members if row in rows)
