# SPDX-License-Identifier: Apache-2.0
"""A driver that decides and claims for one request, and what is recorded of it."""

from novasched.ports.decisions import DecisionRecorder
from tests.support.clouds.fakes import schedule_request


class Recorder(DecisionRecorder):
    def __init__(self):
        self.said = []

    def claimed(self, wanted, outcome, text):
        self.said.append((outcome, text))


def hosts_for(cloud, claims, context, request, uuids, with_alternates):
    """The hosts that the driver of a cloud finds and claims."""
    work = schedule_request(
        context,
        request,
        uuids,
        cloud.placement.candidates(None, ''),
        claims,
        with_alternates,
        recorder=cloud.recorder,
        attempt=cloud.attempt,
    )
    with claims:
        placed = cloud.driver.select_destinations(work)
    return [each[0].service_host for each in placed.selections]
