# SPDX-License-Identifier: Apache-2.0
"""What the attestation server answers, and how it is reached."""

import datetime

import pytest

from novasched.external.attestation import (
    AttestationServer,
    Attested,
    attested,
    time_of,
)
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

NOW = datetime.datetime(2026, 5, 4, 12, 0, 0)  # noqa: DTZ001
THEN = datetime.datetime(2012, 9, 4, 15, 30, 0)  # noqa: DTZ001


def conf(**values):
    made = make_conf()
    for name, value in values.items():
        made.set_override(name, value, 'trusted_computing')
    return made


@cases(
    'text, expected',
    ('ISO 8601', '2012-09-04T15:30:00Z', THEN),
    ('of another zone', '2012-09-04T17:30:00+02:00', THEN),
    ('of no zone', '2012-09-04T15:30:00', THEN),
    ('as C prints it', 'Tue Sep  4 15:30:00 2012', THEN),
    ('neither', 'yesterday', None),
    ('empty', '', None),
    ('before all time', '0001-01-01T00:00:00+14:00', None),
    ('none', None, None),
    ('a number', 1346772600, None),
)
def test_times(text, expected):
    assert time_of(text) == expected


@cases(
    'state, expected',
    (
        'whole',
        {'trust_lvl': 'trusted', 'vtime': '2012-09-04T15:30:00Z'},
        Attested('trusted', THEN),
    ),
    (
        'a time that cannot be read',
        {'trust_lvl': 'trusted', 'vtime': 'yesterday'},
        Attested('unknown', NOW),
    ),
    ('no time', {'trust_lvl': 'trusted'}, Attested('unknown', NOW)),
    ('no level', {'vtime': '2012-09-04T15:30:00Z'}, Attested('unknown', THEN)),
)
def test_answers(state, expected):
    answer = {'hosts': [{'host_name': 'n1', **state}, 'nonsense', {'trust_lvl': 'x'}]}
    assert attested(answer, NOW) == {'n1': expected}


@pytest.mark.parametrize('answer', [[], {}, {'hosts': 'n1'}, 'text', 7])
def test_answers_of_another_shape(answer):
    with pytest.raises(ValueError, match='no list of hosts'):
        attested(answer, NOW)


def test_an_empty_answer():
    assert attested(None, NOW) == {}


def test_novas_defaults():
    assert AttestationServer.from_conf(conf()) == AttestationServer(
        url=None, verify=True, auth_blob=None, timeout_s=10
    )


@cases(
    'options, url, verify',
    (
        'a name',
        {'attestation_server': 'oat.example'},
        'https://oat.example:8443/OpenAttestationWebServices/V1.0',
        True,
    ),
    (
        'an address, and who vouches',
        {
            'attestation_server': 'fd00::1',
            'attestation_port': 443,
            'attestation_api_url': '/v1',
            'attestation_server_ca_file': '/ca.pem',
        },
        'https://[fd00::1]:443/v1',
        '/ca.pem',
    ),
    (
        'insecure',
        {
            'attestation_server': '192.0.2.1',
            'attestation_server_ca_file': '/ca.pem',
            'attestation_insecure_ssl': True,
            'attestation_api_url': '',
        },
        'https://192.0.2.1:8443',
        False,
    ),
)
def test_where_it_is(options, url, verify):
    server = AttestationServer.from_conf(conf(**options))
    assert (server.url, server.verify) == (url, verify)


def test_without_a_server_no_level_is_known(caplog):
    assert AttestationServer(None).poll(['n1']) == {}
    assert 'attestation_server is not set' in caplog.text
