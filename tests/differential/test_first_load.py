# SPDX-License-Identifier: Apache-2.0
"""Random providers and queries: the candidates of placement's tables, and of a first
load by its API, guesses and all. test_candidates compares the former with placement's.

``--seeds N`` and ``--seed S`` are as in test_candidates.
"""

import functools
import itertools
import random

import sqlalchemy as sa

from novasched import errors
from novasched.db.transactions import Database
from novasched.placement_copy.readers import api
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.candidates import search
from novasched.providers.contents import build
from novasched.providers.hints import CloudHints, NodeSize
from novasched.providers.table import SHARES
from novasched_lab.local.placement import EmbeddedPlacement
from tests.differential.test_candidates import SEEDS_OF_A_CLOUD, normal
from tests.support.clouds import recorded_worlds
from tests.support.placement import placement_worlds as worlds
from tests.support.placement.placement_user import ByAdapter

LARGEST = ('VCPU', 'MEMORY_MB', 'DISK_GB')


def as_computes_report(rng, providers):
    """Make the inventories those of computes: any amount up to a largest one, which
    only those of a compute node itself are allocated beyond."""
    for provider in providers:
        is_node = not provider['parent'] and SHARES not in provider['traits']
        if is_node:
            provider['inventories'].setdefault('MEMORY_MB', worlds.inventory(rng))
        for name, each in provider['inventories'].items():
            ratio = each['allocation_ratio'] if is_node and name in LARGEST else 1.0
            each |= {
                'min_unit': 1,
                'step_size': 1,
                'max_unit': each['total'],
                'allocation_ratio': max(1.0, ratio),
            }


def sizes(providers):
    """Return what the compute nodes report; shares are no nodes."""
    found = {}
    for provider in providers:
        if not provider['parent'] and SHARES not in provider['traits']:
            totals = (
                provider['inventories'].get(name, {'total': 1})['total']
                for name in LARGEST
            )
            found[provider['uuid']] = NodeSize(*totals)
    return found


def test_a_first_load_gives_the_candidates_of_placement(
    query_seeds, tmp_path, monkeypatch
):
    """It guesses what it would read of a large cloud in turns."""
    monkeypatch.setattr(api, 'AT_ONCE', 0)
    guessed = 0
    for number, same_cloud in itertools.groupby(
        query_seeds, lambda seed: seed // SEEDS_OF_A_CLOUD
    ):
        rng = random.Random(f'snapshot {number}')
        path = tmp_path / f'{number}.sqlite'
        with EmbeddedPlacement(path) as adapter:
            writer = worlds.Writer(
                functools.partial(ByAdapter(adapter).send, version=worlds.VERSION)
            )
            writer.names()
            providers = worlds.providers(rng)
            as_computes_report(rng, providers)
            for provider in providers:
                writer.create(provider)
            for _ in range(rng.randint(0, 30)):
                writer.claim(rng, providers)
            known = sizes(providers)
            hints = CloudHints(known.copy, lambda: worlds.AGGREGATES)
            loaded = ApiReader(adapter, 1.0).read(hints)
            guessed += len(loaded.guessed)
            assert loaded.knows(worlds.AGGREGATES)
            engine = sa.create_engine(f'sqlite:///{path}')
            exact = build(DatabaseReader(Database(engine)).read())
            engine.dispose()
        for seed in same_cloud:
            text = worlds.query(random.Random(seed), providers)
            query = recorded_worlds.query(text)
            expected, found = (found_in(query, t) for t in (exact, build(loaded)))
            assert found == expected, f'seed {seed}: {text}'
    assert guessed


def found_in(query, table):
    """Return the candidates, or None where placement answers 400."""
    try:
        return normal(search(query, table))
    except errors.InvalidCandidateQuery:
        return None
