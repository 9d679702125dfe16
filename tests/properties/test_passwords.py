# SPDX-License-Identifier: Apache-2.0
"""No part of a password is shown, however odd the URL that holds it."""

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors, printable
from novasched.db import engines, transactions
from tests.support.clouds.configuration import make_conf

PARTS = ('s3c', 'r3t', 'w0r')
ODD = st.text(st.sampled_from('@/:?#$%[],{}&=;+!~"\'\\'), min_size=1, max_size=3)
PASSWORDS = st.tuples(ODD, ODD).map(
    lambda odd: f'{PARTS[0]}{odd[0]}{PARTS[1]}{odd[1]}{PARTS[2]}'
)
PLACES = st.sampled_from(
    [
        'mysql+pymysql://nova:{}@db:1/nova',
        'mysql+pymysql://nova:{}@db/nova?charset=utf8',
        'postgresql+psycopg2://nova:{}@/nova',
        'mysql+pymysql://nova:{}@[::1]:1/nova',
    ]
)
CONF = make_conf()


def shown(url):
    """All that is said of a database whose server is not there."""
    try:
        engine = engines.cell_engine(CONF, url)
    except errors.OptionError as problem:
        return str(problem)
    where = engine.url
    said = f'no server at {where.host}:{where.port}, database {where.database}'
    problem = sa.exc.OperationalError('', {}, OSError(said))
    return f'{transactions.location(engine)} {transactions.describe(problem)}'


@given(PASSWORDS, PLACES)
def test_shown_url_holds_no_part_of_its_password(password, place):
    text = shown(place.format(password))
    assert not any(part in text for part in PARTS), text


@given(PASSWORDS, PLACES)
def test_a_log_line_holds_no_part_of_a_password(password, place):
    url = place.format(password)
    record = printable.LogRecord(
        'a', 40, 'b', 1, 'lost %s: %r', (url, OSError(url)), None
    )
    text = record.getMessage()
    assert not any(part in text for part in PARTS), text
