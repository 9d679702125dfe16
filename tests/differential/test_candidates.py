# SPDX-License-Identifier: Apache-2.0
"""Random providers and queries: the candidates of placement, and ours of its tables.

``--seeds N`` makes N queries; ``--seed S --seeds 1`` makes the one of seed S.
"""

import functools
import itertools
import json
import random

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db.transactions import Database
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.candidates import search
from novasched.providers.contents import build
from novasched.providers.table import SHARES
from novasched_lab.local.placement import EmbeddedPlacement
from tests.support.clouds import recorded_worlds
from tests.support.placement import placement_worlds as worlds
from tests.support.placement.placement_user import ByAdapter

SEEDS_OF_A_CLOUD = 25


def normal(candidates):
    """Return candidates in an order and form that can be compared."""
    return sorted(
        json.dumps(
            [
                candidate['allocations'],
                {s: sorted(uuids) for s, uuids in candidate['mappings'].items()},
            ],
            sort_keys=True,
        )
        for candidate in candidates
    )


def is_wrong_in_placement(query, providers):
    """Placement leaks amounts between groups that ask for the same class (its D1), and
    loses hosts where sharing providers alone may serve the unsuffixed group (D2)."""
    plain = {n for g in query.groups if not g.suffix for n in g.resources}
    suffixed = [group for group in query.groups if group.suffix]
    shared = {
        name
        for each in providers
        if SHARES in each['traits']
        for name in each['inventories']
    }
    if suffixed and plain and plain <= shared:
        return True
    leaks = any(plain & group.resources.keys() for group in suffixed)
    return leaks and query.group_policy != 'none'


class Cloud:
    """A placement in this process, and the table that is made of its database."""

    def __init__(self, directory, adapter, rng):
        self.send = functools.partial(ByAdapter(adapter).send, version=worlds.VERSION)
        self._engine = sa.create_engine(f'sqlite:///{directory}/placement.sqlite')
        writer = worlds.Writer(self.send)
        writer.names()
        self.providers = worlds.providers(rng)
        for provider in self.providers:
            writer.create(provider)
        reader = DatabaseReader(Database(self._engine))
        before = reader.read()
        for _ in range(rng.randint(0, 9)):
            writer.claim(rng, self.providers)
        contents = reader.read_since(before, include_unversioned=False)
        self.table = build(contents, (before, build(before)))

    def close(self):
        self._engine.dispose()


def test_both_give_the_same_candidates(query_seeds, tmp_path):
    for number, same_cloud in itertools.groupby(
        query_seeds, lambda s: s // SEEDS_OF_A_CLOUD
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        with EmbeddedPlacement(directory / 'placement.sqlite') as adapter:
            cloud = Cloud(directory, adapter, random.Random(f'cloud {number}'))
            for seed in same_cloud:
                compare(cloud, worlds.query(random.Random(seed), cloud.providers), seed)
            cloud.close()


def compare(cloud, text, seed):
    """Ask both; ``seed`` is shown where they differ."""
    query = recorded_worlds.query(text)
    if is_wrong_in_placement(query, cloud.providers):
        return
    status, answer = cloud.send('GET', f'/allocation_candidates?{text}')
    if status == 400:
        with pytest.raises(errors.InvalidCandidateQuery):
            search(query, cloud.table)
        return
    assert status == 200, answer
    found = normal(search(query, cloud.table))
    assert found == normal(answer['allocation_requests']), f'seed {seed}: {text}'
