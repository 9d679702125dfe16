# SPDX-License-Identifier: Apache-2.0
"""A request that is kept whole is decided again as it was, host by host."""

import contextlib
import json
import random
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.decisions import history
from novasched.decisions.anonymous import anonymous
from novasched.decisions.log import CollectedRecords
from novasched.decisions.record_builder import RecordBuilder
from novasched.inspection.questions.replay import replay
from novasched.objects.context import RequestContext
from novasched.releases import NEWEST
from novasched.scheduler.pipeline import decide
from tests.properties import test_dry_runs as dry
from tests.properties.strategies import host_tables
from tests.properties.test_decisions import any_request, profiles, seeds
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.dry_clouds import conf_of
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.examples import examples

SERVER = 'c0000000-0000-4000-8000-00000000000a'
SERVERS = [f'c0000000-0000-4000-8000-00000000000{number}' for number in range(3)]


def kept(recorder, conf):
    """Return the document of a request, as it is read again."""
    options = history.decisive_options(conf)
    return history.decoded(history.encoded(recorder, options, NEWEST))


@given(profile=profiles, hosts=host_tables, request=any_request, seed=seeds)
@examples(40)
def test_kept_hosts_and_requests_of_every_kind_are_decided_as_before(
    profile, hosts, request, seed
):
    decision = decide(profile, hosts, request, random.Random(seed))
    log = CollectedRecords(RecordBuilder(profile), FakeClock())
    recorder = log.recorder(RequestContext(overwrite=False), request, [SERVER])
    recorder.decided(replace(decision, seed=seed), 0)
    recorder.ended(None, errors.NoValidHost('no claim was granted'))
    document = kept(recorder, make_conf())
    again = decide(
        profile,
        history.hosts_of(document),
        history.request_of(document['requests'][0]),
        random.Random(seed),
    )
    places = {row: place for place, row in enumerate(hosts.rows.tolist())}
    (made,) = document['requests'][0]['decisions']
    assert made['trace'] == history.trace(decision, places)
    assert made['trace'] == history.trace(again, dict(enumerate(range(len(hosts)))))


asked = st.fixed_dictionaries(
    {
        'flavor': dry.flavors,
        'order': dry.orders,
        'uuids': st.sampled_from([SERVERS[:1], SERVERS[:1], SERVERS, None]),
        'leaves': dry.leaves,
    }
)
drivers = st.sampled_from([*['filter_scheduler'] * 4, 'chance_scheduler'])


@given(cloud=dry.clouds(), asked=asked, driver=drivers, seed=seeds)
@examples(60)
def test_requests_of_the_real_flow_are_decided_again_as_they_were(
    cloud, asked, driver, seed
):
    changes = {
        'filter_scheduler': {
            'host_subset_size': 1 + seed % 2,
            'shuffle_best_same_weighed_hosts': True,
        },
        'scheduler': {'driver': driver},
    }
    options = {group: cloud.options[group] | each for group, each in changes.items()}
    cloud = replace(cloud, options=cloud.options | options)
    for recorder in recorded(cloud, seed, **asked):
        if recorder.turns:
            document = kept(recorder, conf_of(json.dumps(cloud.options)))
            report = replay(document)
            assert report.is_equal, report
            hidden = anonymous(document)
            assert replay(hidden).is_equal
            assert not names_left(document, hidden)


def recorded(cloud, seed, flavor, order, uuids, leaves):
    """Schedule a request in a cloud, and return what was recorded of it."""
    tracked = any(each.children for each in cloud.nodes)
    leaves = leaves if uuids == SERVERS[:1] else None
    with cloud.opened(seed) as opened:
        try:
            request = dry.wanted(opened, flavor, order, tracked, leaves).request
        except errors.NovaschedError:
            return []
        with contextlib.suppress(errors.NoValidHost):
            opened.run.reader.manager.select_destinations(
                RequestContext(overwrite=False), request, uuids, True, True
            )
        return list(opened.run.log.recorders)


def names_left(document, hidden):
    """Return the names of a document that are left in the other one."""
    state, request = document['state'], document['requests'][0]
    names = {row[key] for row in state['hosts'] for key in ('host', 'nodename', 'uuid')}
    for each in state['aggregates']:
        names |= {each['name'], each['uuid'], *each['hosts']}
        metadata = each['metadata']
        names |= {metadata.get('filter_tenant_id'), metadata.get('availability_zone')}
    spec = request['spec']['nova_object.data']
    names |= {spec.get('project_id'), spec.get('user_id')}
    names |= {*(request['instance_uuids'] or ()), request['id']}
    names |= {request['request_id'], spec.get('availability_zone')}
    text = json.dumps(hidden)
    return [
        name
        for name in names - {None, 'nova'}
        if re.search(rf'(?<![\w-]){re.escape(name)}(?![\w-])', text)
    ]
