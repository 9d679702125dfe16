# SPDX-License-Identifier: Apache-2.0
"""novasched-status, from its arguments to its exit code."""

import json
import re

import pytest
import sqlalchemy as sa

from novasched.cluster.release import NO_SERVICES
from novasched.cmd.status import main
from novasched.db import server_tables
from novasched.db import tables as declared
from novasched.manage.status import ONE_TRY
from novasched.ports import CELL0_UUID
from tests.support.databases.databases import cell_mapping, node, service
from tests.support.tables.cases import cases
from tests.unit.cmd.status_cloud import CHECKS, FAILURE, SUCCESS, WARNING, versions


def test_a_cloud_that_is_ready(cloud):
    code, verdicts = cloud.judge()
    by_default = f'nova 34 (2026.2): {NO_SERVICES}.'
    said = {
        'Nova release': (SUCCESS, by_default),
        'Placement database': (SUCCESS, ONE_TRY),
    }
    assert verdicts == dict.fromkeys(CHECKS, (SUCCESS, None)) | said
    assert code == 0


def test_table_looks_like_novas(cloud):
    cloud.remove(declared.host_mappings)
    cloud.remove(declared.cell_mappings, uuid='uuid-1')
    code, out, err = cloud.run()
    assert (code, err) == (2, '')
    lines = out.splitlines()
    bar, *rest = lines
    assert set(bar) == {'+', '-'}
    assert [line.strip('| ') for line in rest[:8]] == [
        'Upgrade Check Results',
        bar,
        'Check: Cells v2',
        'Result: Failure',
        'Details: There needs to be at least two cell mappings, one for cell0',
        "and one for your first cell. Run commands 'novasched-",
        "manage cell_v2 map_cell0' and 'novasched-manage cell_v2",
        "create_cell' and then retry.",
    ]
    assert {len(line) for line in lines} == {len(bar)}
    assert lines[6].startswith('|   and one')
    assert re.findall('Check: (.*?) *[|]', out) == list(CHECKS)


def test_json_has_a_short_name(cloud):
    assert json.loads(cloud.run('--json')[1])['name'] == 'Upgrade Check Results'


def test_cell0_is_needed(cloud):
    cloud.remove(declared.cell_mappings, uuid=CELL0_UUID)
    cloud.zero.add(declared.cell_mappings, cell_mapping())
    code, verdicts = cloud.judge()
    assert verdicts['Cells v2'] == (
        FAILURE,
        "No cell0 mapping found. Run command 'novasched-manage cell_v2 map_cell0' and "
        'then retry.',
    )
    assert code == 2


@cases(
    'nodes, code, says',
    ('no hosts', [], SUCCESS, 'No host mappings or compute nodes were found.'),
    ('a host that was', [node(deleted=7)], SUCCESS, 'No host mappings or'),
    ('a host', [node()], FAILURE, 'No host mappings found but there are'),
)
def test_hosts_are_to_be_mapped(cloud, nodes, code, says):
    cloud.remove(declared.host_mappings)
    cloud.one.add(declared.compute_nodes, *nodes)
    exit_code, verdicts = cloud.judge()
    result, details = verdicts['Cells v2']
    assert (exit_code, result) == (code, code)
    assert details.startswith(says)
    assert 'novasched-manage cell_v2 discover_hosts' in details


@cases(
    'answer, says',
    ('too old', versions('1.10'), 'Placement API version 1.36 needed, you have 1.10.'),
    (
        'not found',
        (404, {}),
        'Placement API does not seem to be running. URL/ answers HTTP 404: correct '
        '[placement] endpoint_override or the endpoint in the service catalog.',
    ),
    (
        'broken',
        (500, 'oh'),
        'Placement API does not seem to be running. URL/ answers HTTP 500: correct '
        '[placement] endpoint_override or the endpoint in the service catalog.',
    ),
    (
        'unknown',
        (401, {}),
        'Placement service credentials do not work. URL/ answers HTTP 401: correct '
        '[placement] auth_type and what it asks for.',
    ),
)
def test_placement_must_answer(cloud, placement, answer, says):
    placement.answer = answer
    code, verdicts = cloud.judge()
    says = says.replace('URL', cloud.endpoint)
    assert verdicts['Placement API'] == (FAILURE, says)
    assert code == 2


def test_computes_must_not_be_too_old(cloud):
    cloud.one.add(declared.services, service(version=60), service(host='h2'))
    _, verdicts = cloud.judge()
    assert verdicts['Older than N-1 computes'] == (
        FAILURE,
        'Current Nova version does not support computes older than Gazpacho but the '
        'minimum compute service level in your system is 60 and the oldest supported '
        f'service level is 72. This is nova 34 (2026.2): {NO_SERVICES}.',
    )


def conductor(version):
    return service(host='c1', binary='nova-conductor', version=version)


def test_computes_may_be_as_old_as_the_release_accepts(cloud):
    cloud.zero.add(declared.services, conductor(67))
    cloud.one.add(declared.services, service(version=66))
    _, verdicts = cloud.judge()
    assert verdicts['Nova release'] == (
        SUCCESS,
        'nova 29 (2024.1): nova-conductor on c1 has service version 67, '
        'which nova 30 (2024.2) writes, too.',
    )
    assert verdicts['Older than N-1 computes'] == (SUCCESS, None)


@cases(
    'option, version, code, says',
    ('pinned', '2025.1', 68, SUCCESS, 'nova 31 (2025.1): [novasched] nova_release'),
    ('pinned otherwise', '31', 67, WARNING, 'services say nova 29 (2024.1): '),
    ('too old', 'auto', 66, FAILURE, 'which is older than nova 29 (2024.1)'),
)
def test_the_release_is_named(cloud, option, version, code, says):
    cloud.zero.add(declared.services, conductor(version))
    more = f'[novasched]\nnova_release = {option}\n'
    _, verdicts = cloud.judge(more=more)
    result, details = verdicts['Nova release']
    assert (result, says in details) == (code, True)


def test_schedulers_must_not_all_be_newer(cloud):
    newer = service(binary='nova-scheduler', topic='scheduler', version=99)
    cloud.zero.add(declared.services, newer)
    _, verdicts = cloud.judge()
    result, details = verdicts['Newer schedulers']
    assert (result, 'older (v74)' in details) == (FAILURE, True)


def test_every_column_must_be_there(cloud):
    with cloud.engines['c1'].begin() as connection:
        connection.execute(sa.text('ALTER TABLE compute_nodes DROP COLUMN mapped'))
        connection.execute(sa.text('DROP TABLE instance_system_metadata'))
    _, verdicts = cloud.judge()
    result, details = verdicts['Databases']
    assert result == FAILURE
    assert 'c1 has no table instance_system_metadata; ' in details
    assert details.endswith('c1 has no column mapped.')


def test_a_cell_that_cannot_be_asked_is_a_failure(cloud, tmp_path):
    url = f'sqlite:///{tmp_path}/none/x'
    cloud.zero.add(declared.cell_mappings, cell_mapping(database_connection=url))
    code, verdicts = cloud.judge()
    failed = {name for name, (result, _) in verdicts.items() if result == FAILURE}
    assert failed == {'Older than N-1 computes', 'Databases'}
    assert code == 2


@cases(
    'more, says',
    (
        'filters',
        '[filter_scheduler]\nenabled_filters = NoSuch\n',
        'Scheduler Host Filter NoSuch could not be found.',
    ),
    ('the driver', '[scheduler]\ndriver = no_such\n', '[scheduler] driver: '),
)
def test_driver_and_filters_must_be_there(cloud, more, says):
    _, verdicts = cloud.judge(more=more)
    result, details = verdicts['Driver, filters and weighers']
    assert (result, says in details) == (FAILURE, True)


def add_pinned(cloud, **changes):
    sizes = dict.fromkeys(('memory_mb', 'vcpus', 'swap'), 1)
    row = {'id': 7, 'name': 'm1.pinned', 'flavorid': 'f7', 'disabled': False, **sizes}
    cloud.zero.add(server_tables.flavors, row | changes)
    specs = ({'hw:cpu_policy': 'dedicated', 'capabilities:vcpus_total': '>= 2'}).items()
    rows = [{'flavor_id': 7, 'key': key, 'value': value} for key, value in specs]
    cloud.zero.add(server_tables.flavor_extra_specs, *rows)


def test_demand_that_no_enabled_filter_checks_is_a_warning(cloud):
    add_pinned(cloud)
    (rack,) = cloud.zero.add(declared.aggregates, {'uuid': 'a1', 'name': 'licensed'})
    kept = {'aggregate_id': rack, 'key': 'os_distro', 'value': 'windows'}
    cloud.zero.add(declared.aggregate_metadata, kept)
    rows = [{'user_id': 'u', 'project_id': 'p', 'uuid': name} for name in 'abc']
    for group in cloud.zero.add(server_tables.instance_groups, *rows):
        policy = {'group_id': group, 'policy': 'affinity'}
        cloud.zero.add(server_tables.instance_group_policy, policy)
    add = 'which no enabled filter checks: add'
    to = 'to [filter_scheduler] enabled_filters.'
    filters = '[filter_scheduler]\nenabled_filters = ComputeCapabilitiesFilter'
    code, verdicts = cloud.judge(more=filters)
    assert (code, verdicts['Policy']) == (
        WARNING,
        (
            WARNING,
            f'Flavor m1.pinned asks for hw:cpu_policy=dedicated, {add} '
            f'NUMATopologyFilter {to} Aggregate licensed has os_distro=windows, {add} '
            f'AggregateImagePropertiesIsolation {to} 3 server groups ask for affinity, '
            f'{add} ServerGroupAffinityFilter {to}',
        ),
    )
    enough = (
        'NUMATopologyFilter,AggregateImagePropertiesIsolation,ServerGroupAffinityFilter'
    )
    verdicts = cloud.judge(more=f'{filters},{enough}\n')[1]
    assert verdicts['Policy'] == (SUCCESS, None)


@cases(
    'driver, disabled',
    ('a flavor that is disabled', 'filter_scheduler', True),
    ('a driver that does not filter', 'chance_scheduler', False),
)
def test_demands_that_are_of_no_account(cloud, driver, disabled):
    add_pinned(cloud, disabled=disabled)
    _, verdicts = cloud.judge(more=f'[scheduler]\ndriver = {driver}\n')
    assert verdicts['Policy'] == (SUCCESS, None)


def test_a_cloud_without_flavors_of_its_own(cloud):
    with cloud.engines['api'].begin() as connection:
        connection.execute(sa.text('DROP TABLE flavor_extra_specs'))
        connection.execute(sa.text('DROP TABLE flavors'))
    assert cloud.judge()[1]['Policy'] == (SUCCESS, None)


def test_options_that_do_nothing_are_a_warning(cloud):
    more = (
        '[filter_scheduler]\nuse_baremetal_filters = True\n'
        '[scheduler]\nworkerz = 1\n'
        '[DEFAULT]\ngraceful_shutdown_timeout = 4\n'
    )
    code, verdicts = cloud.judge(more=more)
    result, details = verdicts['Options']
    assert (code, result) == (WARNING, WARNING)
    for said in ('use_baremetal_filters', 'mean workers?', 'under way get 0 s.'):
        assert said in details


def test_a_value_that_is_none_is_named_with_its_line(cloud, tmp_path):
    more = (
        '[filter_scheduler]\nhost_subset_size = many\n'
        '[novasched]\ncandidates = miror\n'
        '[DEFAULT]\ndebug = perhaps\n'
    )
    code, verdicts = cloud.judge(more=more)
    conf = tmp_path / 'nova.conf'
    assert (code, verdicts['Options']) == (
        FAILURE,
        (
            FAILURE,
            f"[filter_scheduler] host_subset_size: {conf}, line 11: 'many' is no "
            'number. Write a whole number of at least 1. '
            f'[novasched] candidates: {conf}, line 13: Valid values are [auto, mirror, '
            "placement], but found 'miror'. Write one of auto, mirror, placement. "
            f"[DEFAULT] debug: {conf}, line 15: Unexpected boolean value 'perhaps'. "
            'Write true or false.',
        ),
    )
    skipped = (FAILURE, 'Skipped: see Options.')
    assert verdicts['Driver, filters and weighers'] == skipped
    assert verdicts['Databases'] == (SUCCESS, None)


@cases(
    'text, says',
    (
        'a line that is none',
        'rubbish s3cret\n',
        "/nova.conf, line 10: no ':' or '=' found in assignment. Write options as "
        'name = value, below the [group] that they are of.',
    ),
    ('no file', None, '/nova.conf: No such file or directory.'),
)
def test_a_file_that_cannot_be_used_is_a_failure(cloud, text, says):
    with pytest.raises(SystemExit) as ended:
        cloud.run(more=text)
    assert ended.value.code == FAILURE
    assert says in cloud.err.getvalue()
    assert 's3cret' not in cloud.err.getvalue()


def test_a_check_that_fails_is_not_the_end(cloud, placement):
    placement.answer = versions('one.two')
    code, out, err = cloud.run()
    assert (code, 'Unexpected: ValueError: ' in out) == (255, True)
    assert re.findall('Check: (.*?) *[|]', out) == list(CHECKS)
    assert 'invalid literal' in err


@cases(
    'more, skipped',
    (
        'one database',
        '[api_database]\nconnection = sqlite:////nonexistent/x\n',
        {'Older than N-1 computes', 'Databases', 'Policy'},
    ),
    (
        'a driver that both databases lack',
        '[api_database]\nconnection = mysql+mysqldb://h/x\n'
        '[database]\nconnection = mysql+mysqldb://h/y\n',
        {
            'Nova release',
            'Older than N-1 computes',
            'Newer schedulers',
            'Databases',
            'Driver, filters and weighers',
            'Policy',
        },
    ),
)
def test_one_cause_is_named_once(cloud, more, skipped):
    code, verdicts = cloud.judge(more=more)
    said = {name for name, verdict in verdicts.items() if verdict[1] == SKIPPED}
    assert (code, said) == (FAILURE, skipped)
    assert verdicts['Cells v2'][1].startswith('[api_database] connection: ')


SKIPPED = 'Skipped: see Cells v2.'


@pytest.mark.parametrize('words', [[], ['upgrade']])
def test_the_command_must_be_given(words, capsys):
    if words:
        assert main(words) == 2
    else:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert 'upgrade check' in capsys.readouterr().out
