# SPDX-License-Identifier: Apache-2.0
"""Plans on real servers, by an account that may only read, and what then happens."""

import json
import time

import pytest
import sqlalchemy as sa

from tests.live.daemon import own_program
from tests.live.flow import CELLS, HOSTS
from tests.live.servers.process import completed, free_port
from tests.support.tables.examples import scaled

pytestmark = pytest.mark.ours
RUN_S = 60
SERVERS = scaled(50)
SMALL = ('--flavor', 'vcpus=1,ram=512,disk=1')
READER = {'username': 'reader', 'password': 'reader-secret'}


@pytest.fixture(scope='module')
def flow(flow_cloud):
    return flow_cloud


@pytest.fixture(scope='module')
def reader_conf(flow):
    """A configuration whose account may only read, and that names no broker."""
    url = sa.make_url(flow.cloud.urls['api'])
    engine = sa.create_engine(url, isolation_level='AUTOCOMMIT')
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE USER IF NOT EXISTS reader IDENTIFIED BY 'reader-secret'"
        )
        for each in map(sa.make_url, flow.cloud.urls.values()):
            connection.exec_driver_sql(f'GRANT SELECT ON {each.database}.* TO reader')
    engine.dispose()
    own = {
        name: sa.make_url(url).set(**READER).render_as_string(hide_password=False)
        for name, url in flow.cloud.urls.items()
    }
    return flow.cloud.write_conf(
        flow.dir / 'reader.conf',
        transport_url='rabbit://nobody:nothing@127.0.0.1:1/',
        api_database={'connection': own['api']},
        database={'connection': own['cell0']},
    )


@pytest.fixture
def plan(reader_conf, placement):
    """Run a command; give its exit code, JSON and what it said beside.

    Placement must be as it was, row by row.
    """

    def rows():
        return [
            placement.rows(f'SELECT * FROM {table} ORDER BY id')
            for table in ('resource_providers', 'allocations', 'consumers')
        ]

    def run(*words):
        before = rows()
        done = completed(
            [
                own_program('novasched'),
                *words,
                '--config-file',
                reader_conf,
                '-f',
                'json',
            ],
            timeout_s=RUN_S,
        )
        assert rows() == before
        found = json.loads(done.stdout) if done.stdout else None
        return done.returncode, found, done.stderr

    return run


def boot(flow, uuids):
    """Boot servers; give their hosts."""
    flow.boot(uuids)
    found = [flow.ended(uuid) for uuid in uuids]
    assert {each.vm_state for each in found} == {'active'}
    return [each.host for each in found]


def are_settled(flow):
    """Whether the computes have told of the ends of all that other tests had."""
    return all(
        node['running_vms']
        == len(flow.cloud.rows(cell, 'instances', host=node['host'], deleted=0))
        and json.loads(node['stats'] or '{}').get('io_workload', '0') in (0, '0')
        for cell in CELLS
        for node in flow.cloud.rows(cell, 'compute_nodes', deleted=0)
    )


def test_an_account_that_may_only_read_plans_what_then_happens(
    flow, plan, placement, new_uuid, claims, eventually
):
    """Servers of one request go to the hosts of the plan, in its order, and placement
    is asked by GET only until they do."""

    def consumers():
        return placement.rows('SELECT uuid FROM consumers ORDER BY uuid')

    eventually(lambda: are_settled(flow), 'all servers of others are gone')
    uuids = [new_uuid() for _ in range(SERVERS)]
    asked = len(placement.accesses())
    code, planned, said = plan('plan', 'boot', *SMALL, '--count', str(SERVERS))
    assert (code, said) == (0, '')
    assert {method for method, _ in placement.accesses()[asked:]} <= {'GET'}
    hosts = boot(flow, uuids)
    claims.expect(*uuids)
    assert hosts == [each['host'] for each in planned['placed']]
    eventually(lambda: are_settled(flow), 'all computes have told of their servers')
    before = consumers()
    code, planned, said = plan('plan', 'drain', hosts[0])
    assert (code, said) == (0, '')
    assert planned['asked'] == hosts.count(hosts[0])
    for each in planned['placed']:
        flow.conductor.migrate_server(flow.context, flow.instance(each['server']))

        def is_there(each=each):
            host = flow.instance(each['server']).host
            return host == each['host'] and are_settled(flow)

        eventually(is_there, f'{each["server"]} on {each["host"]}')
    # The end of a migration comes after its server is there.
    eventually(lambda: consumers() == before, 'no migration to hold anything')
    code, planned, _ = plan('plan', 'drain', hosts[0])
    assert (code, planned['asked']) == (0, 0)


def test_an_account_that_may_only_read_counts_what_is_left(flow, plan):
    code, answer, said = plan('capacity', *SMALL, '--by', 'host', '--fresh')
    assert (code, said) == (0, '')
    slots = {row['by']: row['slots'] for row in answer['rows']}
    assert slots.keys() == {name for name, _ in HOSTS}
    assert min(slots.values()) > 0
    name, count = min(slots.items())
    more = ('--host', name, '--count', str(count + 1))
    code, planned, _ = plan('plan', 'boot', *SMALL, *more)
    assert (code, planned['fits']) == (3, count)


def test_nothing_but_the_databases_and_placement_is_needed(flow, plan):
    flow.processes['scheduler'].stop()
    try:
        code, planned, said = plan('plan', 'boot', *SMALL)
        assert (code, planned['fits'], said) == (0, 1, '')
        host = planned['placed'][0]['host']
        code, answer, _ = plan('why-not', host, *SMALL)
        assert (code, answer['rank']) == (0, 1)
    finally:
        flow.start('scheduler')


def test_a_database_of_a_cell_that_is_stopped_costs_little_and_is_named(flow, plan):
    began = time.monotonic()
    assert plan('plan', 'boot', *SMALL)[0] == 0
    whole_s = time.monotonic() - began
    (row,) = flow.cloud.rows('api', 'cell_mappings', name='cell2')
    url = f'mysql+pymysql://reader:no@127.0.0.1:{free_port()}/nowhere'
    gone = {'database_connection': url}
    flow.cloud.update('api', 'cell_mappings', gone, name='cell2')
    try:
        warning = 'warning: cell2 does not answer; its hosts are not in this\n'
        began = time.monotonic()
        code, planned, said = plan('plan', 'boot', *SMALL)
        assert time.monotonic() - began < 2 * whole_s + 15
        assert (code, said, planned['cells_left_out']) == (0, warning, ['cell2'])
        code, planned, said = plan('plan', 'boot', '--flavor', 'vcpus=64,ram=1,disk=1')
        assert (code, said) == (4, warning)
    finally:
        back = {'database_connection': row['database_connection']}
        flow.cloud.update('api', 'cell_mappings', back, name='cell2')


def test_missing_host_or_flavor_is_an_error(plan):
    code, answer, said = plan('plan', 'drain', 'flow-9')
    assert (code, answer) == (1, None)
    assert 'there is no host flow-9. Did you mean flow-' in said
    code, answer, said = plan('plan', 'boot', '--flavor', 'no.such')
    assert (code, answer) == (1, None)
    assert 'there is no flavor no.such' in said
