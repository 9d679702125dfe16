# SPDX-License-Identifier: Apache-2.0
"""The filter by trust, with the server that it asks."""

from __future__ import annotations

from typing import Any, Self

from novasched.attestation.levels import KnownLevels
from novasched.attestation.server import GROUP, AttestationServer
from novasched.scheduler.filters.legacy.trusted import TrustRule


class TrustedFilter(TrustRule):
    """Pass hosts whose attested level of trust is what ``trust:trusted_host`` asks.

    The attestation server is asked when a request first needs a level, and again
    when what it said is older than ``[trusted_computing]
    attestation_auth_timeout``. Nova 16: scheduler/filters/trusted_filter.py.
    """

    deprecated = (
        'TrustedFilter is deprecated in Pike and will be removed in a subsequent '
        'release. Traits in placement say which hosts are trusted.'
    )

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        server = AttestationServer.from_conf(conf)
        return cls(KnownLevels(server.poll, conf[GROUP].attestation_auth_timeout))
