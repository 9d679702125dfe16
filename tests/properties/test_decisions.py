# SPDX-License-Identifier: Apache-2.0
"""What holds for decisions as a whole."""

import random

from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.hosts import consume
from novasched.scheduler.pipeline import Profile, decide
from tests.properties.installed import FILTERS, WEIGHERS, contents
from tests.properties.strategies import host_tables, naming_requests, requests
from tests.support.tables.examples import examples

profiles = st.builds(
    Profile,
    filters=st.sampled_from([(), tuple(FILTERS)]),
    weighers=st.just(tuple(WEIGHERS)),
    host_subset_size=st.integers(1, 4),
    shuffle_best=st.booleans(),
)
any_request = requests | naming_requests
seeds = st.integers(0, 2**32)


@given(profile=profiles, hosts=host_tables, request=any_request, seed=seeds)
@examples(40)
def test_the_same_seed_gives_the_same_decision(profile, hosts, request, seed):
    first, second = (
        decide(profile, hosts, request, random.Random(seed)) for _ in range(2)
    )
    assert first.ranked.rows.tolist() == second.ranked.rows.tolist()
    assert first.totals.tolist() == second.totals.tolist()
    assert first.funnel() == second.funnel()
    assert first.notes == second.notes


@given(profile=profiles, hosts=host_tables, request=any_request, seed=seeds)
@examples(40)
def test_a_decision_leaves_its_input_alone(profile, hosts, request, seed):
    before = contents(hosts), request.obj_to_primitive()
    decide(profile, hosts, request, random.Random(seed))
    assert (contents(hosts), request.obj_to_primitive()) == before
    assert request.obj_what_changed() == set()


@given(profile=profiles, hosts=host_tables, request=any_request, seed=seeds)
@examples(40)
def test_all_but_the_first_are_in_the_order_of_their_weights(
    profile, hosts, request, seed
):
    decision = decide(profile, hosts, request, random.Random(seed))
    totals = decision.totals.tolist()
    assert totals[1:] == sorted(totals[1:], reverse=True)
    assert sorted(decision.ranked.rows) == sorted(decision.weighed.hosts.rows)
    better = sum(total > totals[0] for total in totals)
    assert better < profile.host_subset_size


@given(hosts=host_tables.filter(len), request=requests)
@examples(30)
def test_consuming_leaves_the_hosts_alone(hosts, request):
    before = contents(hosts)
    after = consume(hosts, int(hosts.rows[0]), request)
    assert contents(hosts) == before
    assert after.num_instances.tolist()[1:] == hosts.num_instances.tolist()[1:]
    assert after.num_instances[0] == hosts.num_instances[0] + 1
