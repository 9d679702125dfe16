# SPDX-License-Identifier: Apache-2.0
"""A driver that decides and claims for one request, and what is recorded of it."""

from dataclasses import replace

from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import RequestAttempt
from novasched.objects.context import RequestContext
from novasched.ports import NO_CALLER
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from tests.support.clouds import factories
from tests.support.clouds.fakes import schedule_request


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
    if verifier is not None:
        candidates = replace(candidates, verifier=verifier)
    work = schedule_request(
        context,
        request or factories.request(),
        uuids,
        candidates,
        alternates=alternates,
        recorder=recorder,
        attempt=attempt,
        caller=caller,
        **more,
    )
    if uuids is None or candidates is None:
        return driver.select_destinations(work)
    claimed = ClaimedRequest.of(work, placement)
    with claimed.claims:
        return driver.select_destinations(claimed)


def names(placed):
    """The names of the hosts per instance, the selected one first."""
    return [[one.service_host for one in each] for each in placed.selections]
