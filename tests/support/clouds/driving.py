# SPDX-License-Identifier: Apache-2.0
"""A driver that decides and claims for one request, and what is recorded of it."""

from novasched.claiming.claims import ClaimedRequest, ClaimJournal, Claims
from novasched.claiming.host_candidates import RemainingCapacity
from novasched.claiming.request import RequestAttempt
from novasched.objects.context import RequestContext
from novasched.ports import NO_CALLER
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from tests.support.clouds import factories
from tests.support.clouds.fakes import VERSION, schedule_request


class Recorder(DecisionRecorder):
    def __init__(self):
        self.said = []

    def claimed(self, wanted, outcome, text):
        self.said.append((outcome, text))


def drive(
    driver,
    placement,
    uuids,
    request=None,
    alternates=False,
    *,
    candidates=...,
    attempt=None,
    caller=NO_CALLER,
    recorder=NO_RECORDER,
    verifier=None,
    **more,
):
    """Let a driver choose and claim the hosts of one request; return the result.

    Nothing is claimed without ``uuids`` or ``candidates``, which placement gives if
    they are not said.
    """
    context, attempt = RequestContext(overwrite=False), attempt or RequestAttempt()
    candidates = placement.candidates(None, '') if candidates is ... else candidates
    work = schedule_request(
        context,
        request or factories.request(),
        uuids,
        candidates,
        alternates=alternates,
        recorder=recorder,
        attempt=attempt,
        **more,
    )
    if uuids is None or candidates is None:
        return driver.select_destinations(work)
    with Claims(
        placement,
        context,
        VERSION,
        RemainingCapacity(candidates.summaries),
        ClaimJournal(None, caller),
        recorder,
        verifier,
        attempt=attempt,
    ) as claims:
        return driver.select_destinations(ClaimedRequest.of(work, claims))


def names(placed):
    """The names of the hosts per instance, the selected one first."""
    return [[one.service_host for one in each] for each in placed.selections]
