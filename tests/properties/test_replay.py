# SPDX-License-Identifier: Apache-2.0
"""The seed in a stored record replays the decision: every host has the outcome that is
kept of it."""

import random
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.decisions.log import CollectedRecords
from novasched.decisions.reading import DecisionFiles
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.writing import DecisionWriter
from novasched.objects.context import RequestContext
from novasched.scheduler.outline import host_names
from novasched.scheduler.pipeline import decide
from novasched.scheduler.reasons import (
    FIRST_STEP,
    LAST_STEP,
    NOT_A_CANDIDATE,
    NOT_NAMED,
    PASSED,
)
from tests.properties.strategies import host_tables
from tests.properties.test_decisions import any_request, profiles
from tests.support.clouds.fakes import FakeClock
from tests.support.records.stored_records import write
from tests.support.tables.examples import examples

SERVER = 'c0000000-0000-4000-8000-00000000000a'


def stored(record):
    """Write a record to a file, and read it."""
    with tempfile.TemporaryDirectory() as scratch:
        writer = DecisionWriter(Path(scratch))
        write(writer, [record])
        found = DecisionFiles(Path(scratch)).read(record.head.id)
        writer.close()
    return found


def outcome(decision, row):
    """Return what became of one host, by the tables of a decision."""
    if row not in decision.hosts.rows:
        return NOT_A_CANDIDATE
    if row in decision.ranked.rows:
        return PASSED
    for number, step in enumerate(decision.steps):
        if row in step.before.rows and row not in step.after.rows:
            return min(FIRST_STEP + number, LAST_STEP)
    return NOT_NAMED


@given(
    profile=profiles,
    hosts=host_tables,
    request=any_request,
    seed=st.integers(0, 2**64 - 1),
)
@examples(40)
def test_the_seed_of_a_stored_record_replays_the_decision(
    profile, hosts, request, seed
):
    decision = decide(profile, hosts, request, random.Random(seed))
    builder = RecordBuilder(profile, known=lambda: len(hosts.snapshot))
    log = CollectedRecords(builder, FakeClock())
    recorder = log.recorder(RequestContext(overwrite=False), request, [SERVER])
    recorder.decided(replace(decision, seed=seed), 0)
    recorder.ended(None, errors.NoValidHost('no claim was granted'))
    record = stored(log.records[-1])
    (kept,) = record.body.decisions
    again = decide(profile, hosts, request, random.Random(kept.seed))
    everywhere = range(len(hosts.snapshot))
    assert kept.outcomes == bytes(outcome(again, row) for row in everywhere)
    hosts_and_nodes = map(hosts.snapshot.column, ('host', 'nodename'))
    names = host_names(*hosts_and_nodes)
    assert record.host_lists[kept.host_list] == names
    assert kept.left == len(again.ranked)
    assert list(kept.top) == again.ranked.host.tolist()[: len(kept.top)]
