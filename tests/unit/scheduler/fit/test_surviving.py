# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a table, and which of their candidates, are left."""

from __future__ import annotations

import numpy as np

from novasched.scheduler.fit.answers import Answers
from novasched.scheduler.fit.device_requests import requests_of
from novasched.scheduler.fit.question import Question
from novasched.scheduler.fit.surviving import surviving
from tests import factories
from tests.factories import pools

ID = '7c676751-512d-41c1-b313-66dc92a3b8f6'


def candidate(uuid):
    return {'mappings': {'': ['root'], f'{ID}-0': [uuid]}}


NEAR, FAR = candidate('near'), candidate('far')


def hosts(*texts, candidates):
    listed = [list(candidates) for _ in texts]
    return factories.hosts(pci_stats=list(texts), allocation_candidates=listed)


def left(table, hopeful=None, **asked):
    """Return the hosts that pass, and the candidates of all."""
    everyone = np.ones(len(table), bool)
    hopeful = everyone if hopeful is None else np.array(hopeful)
    question = Question(None, requests_of(factories.devices(request_id=ID, **asked)))
    passes, after = surviving(table, question, Answers(), hopeful)
    assert len(after) == len(table)
    return passes.tolist(), [host.allocation_candidates for host in after.states()]


def test_candidates_are_kept_one_by_one():
    table = hosts(
        pools({'rp_uuid': 'near'}), pools({'rp_uuid': 'x'}), candidates=[NEAR, FAR]
    )
    assert left(table) == ([True, False], [[NEAR], []])
    assert [host.allocation_candidates for host in table.states()] == [[NEAR, FAR]] * 2


def test_candidates_that_are_all_the_same_stay():
    table = hosts(pools(1), None, candidates=[NEAR, FAR])
    assert left(table, alias=None) == ([True, False], [[NEAR, FAR]] * 2)


def test_a_host_without_candidates_is_not_left():
    table = hosts(pools(1), candidates=[])
    assert left(table, alias=None) == ([False], [[]])
    assert left(table) == ([False], [[]])


def test_hosts_without_hope_are_not_asked():
    table = hosts(pools({'rp_uuid': 'x'}), pools(1), candidates=[NEAR])
    assert left(table, [False, False]) == ([False, False], [[NEAR]] * 2)
