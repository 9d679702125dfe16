# SPDX-License-Identifier: Apache-2.0
"""novasched-status tries each way that the service connects, and names what fails."""

import sqlalchemy as sa

from novasched.db import tables as declared
from novasched.observability import serving
from tests.live.servers.process import free_port
from tests.support.databases.databases import node
from tests.support.tables.cases import cases
from tests.unit.cmd.status_cloud import (
    CREDENTIALS,
    FAILURE,
    NOBODY,
    PASSWORD,
    SUCCESS,
    WARNING,
)


@cases(
    'options, says',
    ('nothing', '', 'No credentials specified for placement API in nova.conf.'),
    (
        'nobody listens',
        f'auth_type = none\nendpoint_override = {NOBODY}',
        'Placement API does not seem to be running. Placement at '
        f'{NOBODY}/ cannot be reached: connection refused.',
    ),
    (
        'no keystone',
        PASSWORD,
        'Discovery for placement API URI failed. Keystone at [placement] auth_url, '
        f'{NOBODY}, cannot be reached: connection refused.',
    ),
    (
        'no HTTP',
        'auth_type = none\nendpoint_override = ftp://127.0.0.1',
        'Placement API does not seem to be running. Placement at ftp://127.0.0.1 '
        'cannot be reached: ',
    ),
    (
        'no certificate',
        'auth_type = none\ncafile = /none.pem',
        '[placement] cafile: /none.pem: no such file or directory. Name a file',
    ),
    (
        'no cipher',
        'auth_type = none\ntls_ciphers = rot13',
        '[placement] tls_ciphers: rot13 names no cipher that there is. Write it',
    ),
    (
        'no time',
        'auth_type = none\ntimeout = 0',
        '[placement] timeout: it is 0. Set it to the seconds',
    ),
    (
        'no certificate of ours',
        'auth_type = none\ncertfile = /none.pem\nkeyfile = /none.key',
        '[placement] certfile: /none.pem: no such file or directory. Name a file',
    ),
    ('no plugin', 'auth_type = bogus', '[placement] auth_type: '),
)
def test_placement_must_be_reached(cloud, options, says):
    code, verdicts = cloud.judge(placement=options)
    result, details = verdicts['Placement API']
    assert result == FAILURE
    assert details.startswith(says)
    assert code == 2


@cases(
    'options, says',
    ('where it is', 'region_name = Earth', None),
    ('a region', 'region_name = Mars', 'internal or public in region Mars;'),
    ('a side', 'valid_interfaces = admin', 'interface admin in any region;'),
)
def test_endpoint_missing_from_the_catalog_is_named(cloud, options, says):
    auth = f'auth_type = v3password\nauth_url = {cloud.endpoint}/v3\n{CREDENTIALS}'
    _, verdicts = cloud.judge(placement=f'endpoint_override =\n{auth}{options}\n')
    result, details = verdicts['Placement API']
    assert result == (FAILURE if says else SUCCESS)
    if says:
        assert 'no endpoint of type placement with interface ' in details
        assert says in details


def test_a_keystone_that_is_none_is_named(cloud):
    auth = f'auth_type = v3password\nauth_url = {cloud.endpoint}/id\n{CREDENTIALS}'
    _, verdicts = cloud.judge(placement=auth)
    assert verdicts['Placement API'] == (
        FAILURE,
        'Placement API does not seem to be running. Keystone at [placement] auth_url, '
        f'{cloud.endpoint}/id, answers HTTP 404.',
    )


@cases(
    'more, says',
    (
        'nobody listens',
        f'[neutron]\nauth_type = none\nendpoint_override = {NOBODY}\n',
        f'[neutron]: network at {NOBODY}/ cannot be reached: connection refused.',
    ),
    (
        'no certificate',
        '[neutron]\nauth_type = none\nendpoint_override = URL\ncafile = /none\n',
        '[neutron] cafile: /none: no such file or directory.',
    ),
    (
        'no keystone for the token of the service',
        '[service_user]\nsend_service_user_token = true\n'
        f'auth_type = v3password\nauth_url = {NOBODY}/v3\n{CREDENTIALS}',
        f'[service_user]: keystone at [service_user] auth_url, {NOBODY}/v3, cannot',
    ),
)
def test_the_network_service_must_be_reached(cloud, more, says):
    code, verdicts = cloud.judge(more=more)
    result, details = verdicts['Network API']
    assert (code, result) == (FAILURE, FAILURE)
    assert details.startswith(says)


@cases(
    'options, says',
    (
        'nobody listens',
        'attestation_port = 1\n',
        'attestation_server: https://127.0.0.1:1/OpenAttestationWebServices/V1.0 '
        'cannot be reached: connection refused.',
    ),
    (
        'no certificate',
        'attestation_server_ca_file = /none.pem\n',
        'attestation_server_ca_file: /none.pem: no such file or directory.',
    ),
)
def test_the_attestation_server_must_be_reached(cloud, options, says):
    more = (
        '[filter_scheduler]\nenabled_filters = TrustedFilter\n'
        f'[trusted_computing]\nattestation_server = 127.0.0.1\n{options}'
    )
    _, verdicts = cloud.judge(more=more)
    result, details = verdicts['Driver, filters and weighers']
    assert result == FAILURE
    assert details.startswith(f'[trusted_computing] {says}')


@cases(
    'option, lines',
    ('of messages', '[DEFAULT] transport_url', '[DEFAULT]\n'),
    (
        'of notifications',
        '[oslo_messaging_notifications] transport_url',
        '[oslo_messaging_notifications]\ndriver = messagingv2\n',
    ),
)
def test_missing_broker_is_a_failure(cloud, option, lines):
    url = f'rabbit://nova:s3cret@127.0.0.1:{free_port()}/'
    code, verdicts = cloud.judge(more=f'{lines}transport_url = {url}\n')
    result, details = verdicts['Message queue']
    assert (code, result) == (FAILURE, FAILURE)
    assert details.startswith(f'{option}: no broker answers: 127.0.0.1:')
    assert 's3cret' not in details


DEAD = (
    '[oslo_messaging_rabbit]\nrabbit_hosts = mq1:5672,mq2:5672\nrabbit_userid = nova\n'
    'kombu_ssl_ca_certs = /ca.pem\n'
)

BROKER = '[DEFAULT] transport_url = rabbit://USER:PASSWORD@HOST:5672/VIRTUAL_HOST'


def test_unread_options_are_named(cloud):
    more = f'{DEAD}[DEFAULT]\nrpc_backend = rabbit\nsql_connection = mysql://h/n\n'
    code, verdicts = cloud.judge(more=more)
    assert (code, verdicts['Options']) == (
        WARNING,
        (
            WARNING,
            '[DEFAULT] rpc_backend, [oslo_messaging_rabbit] rabbit_hosts, '
            '[oslo_messaging_rabbit] rabbit_userid: nothing reads this any more. '
            f'Set {BROKER}. '
            '[DEFAULT] sql_connection: nothing reads this any more. '
            'Set [database] connection. '
            '[oslo_messaging_rabbit] kombu_ssl_ca_certs (now [oslo_messaging_rabbit] '
            'ssl_ca_file): only the libraries of nova 30 and older read this, and this '
            'service in their clouds. Set what is named now.',
        ),
    )


def test_unread_options_do_not_name_a_broker(cloud):
    code, verdicts = cloud.judge(more=f'[DEFAULT]\ntransport_url = rabbit://\n{DEAD}')
    assert (code, verdicts['Message queue']) == (
        FAILURE,
        (
            FAILURE,
            '[oslo_messaging_rabbit] rabbit_hosts, [oslo_messaging_rabbit] '
            'rabbit_userid: nothing reads this any more, and [DEFAULT] transport_url '
            'is not set: the service would connect to the broker of this machine, as '
            f'guest. Set {BROKER}.',
        ),
    )


@cases(
    'connection, says',
    ('no database', 'none/x', 'unable to open database file'),
    ('not its tables', 'c1', 'no such table: resource_providers'),
    ('empty', 'empty', 'has no resource providers, but there are'),
    ('its own', 'full', None),
)
def test_the_database_of_placement_is_read(cloud, tmp_path, connection, says):
    cloud.one.add(declared.compute_nodes, node())
    for name in ('empty', 'full'):
        engine = sa.create_engine(f'sqlite:///{tmp_path}/{name}')
        with engine.begin() as opened:
            for statement in PLACEMENT_TABLES:
                opened.exec_driver_sql(statement)
            if name == 'full':
                opened.exec_driver_sql(
                    "INSERT INTO resource_providers VALUES (1, 'u', 1, 1, NULL)"
                )
        engine.dispose()
    url = f'sqlite:///{tmp_path}/{connection}'
    code, verdicts = cloud.judge(
        more=f'[novasched]\ncandidates = mirror\n'
        f'[placement_database]\nconnection = {url}\n'
    )
    result, details = verdicts['Placement database']
    assert (code, result) == ((FAILURE, FAILURE) if says else (SUCCESS, SUCCESS))
    if says:
        assert details.startswith('[placement_database] connection: ')
        assert says in details


PLACEMENT_TABLES = (
    'CREATE TABLE resource_providers (id, uuid, generation, root_provider_id, '
    'parent_provider_id)',
    'CREATE TABLE inventories (resource_provider_id, resource_class_id, total, '
    'reserved, min_unit, max_unit, step_size, allocation_ratio)',
    'CREATE TABLE allocations (resource_provider_id, resource_class_id, used)',
    'CREATE TABLE resource_provider_traits (resource_provider_id, trait_id)',
    'CREATE TABLE resource_provider_aggregates (resource_provider_id, aggregate_id)',
    'CREATE TABLE resource_classes (id, name)',
    'CREATE TABLE traits (id, name)',
    'CREATE TABLE placement_aggregates (id, uuid)',
)


def test_heartbeats_in_memcached_need_its_servers(cloud):
    more = (
        '[DEFAULT]\nservicegroup_driver = mc\n[cache]\nenabled = true\n'
        'backend = oslo_cache.memcache_pool\n'
        f'memcache_servers = 127.0.0.1:{free_port()}\n'
    )
    _, verdicts = cloud.judge(more=more)
    result, details = verdicts['Heartbeats']
    assert result == FAILURE
    assert details.startswith('[cache] memcache_servers: no answer: 127.0.0.1:')


@cases(
    'option, text, says',
    (
        'a comment behind it',
        '[healthcheck]\nuri',
        'tcp://localhost:9107  # health',
        "[healthcheck] uri: 'tcp://localhost:9107  # health' is no address. Write",
    ),
    (
        'another host',
        '[novasched]\nmetrics_uri',
        'tcp://192.0.2.1:9108',
        '[novasched] metrics_uri: tcp://192.0.2.1:9108: Cannot assign',
    ),
)
def test_the_service_must_be_able_to_listen(cloud, option, text, says):
    code, verdicts = cloud.judge(more=f'{option} = {text}\n')
    result, details = verdicts['Health and metrics']
    assert (code, result) == (FAILURE, FAILURE)
    assert details.startswith(says)


@cases(
    'kind, result, says',
    ('ours', 'scheduler', WARNING, 'a novasched-scheduler that runs'),
    ('another', 'placement', FAILURE, 'Address already in use.'),
)
def test_an_address_in_use_is_named(cloud, kind, result, says):
    address = serving.Address('127.0.0.1', free_port())
    uri = str(address)
    if kind == 'placement':
        uri = cloud.endpoint.replace('http', 'tcp')
    endpoint = serving.Endpoint(address, {})
    endpoint.start()
    try:
        code, verdicts = cloud.judge(more=f'[healthcheck]\nuri = {uri}\n')
    finally:
        endpoint.stop()
    assert (code, verdicts['Health and metrics'][0]) == (result, result)
    assert f'[healthcheck] uri: {uri}' in verdicts['Health and metrics'][1]
    assert says in verdicts['Health and metrics'][1]
