# SPDX-License-Identifier: Apache-2.0
"""The lab does not serve in the database of a running nova, unless it must."""

import datetime
import uuid

import pytest
from oslo_utils import timeutils

from novasched import errors
from novasched.cluster.services import OPTS
from novasched.db import tables
from novasched_lab import program
from novasched_lab.cmd import BESIDE_NOVA
from novasched_lab.host_inventory import name_uuid
from tests.support.databases.databases import service
from tests.support.tables.cases import cases

SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def seen(databases, conf):
    """Configures a database with one service, heard of so many seconds ago."""

    def make(binary, seconds_ago, uuid):
        last_seen_up = timeutils.utcnow() - seconds_ago * SECOND
        row = service(binary=binary, uuid=uuid, host='h1', last_seen_up=last_seen_up)
        databases.add(tables.services, row)
        made = conf(main=str(databases.cell.url))
        made.register_opts(OPTS['DEFAULT'])
        made.register_opt(BESIDE_NOVA)
        return made

    return make


@pytest.mark.parametrize('binary', ['nova-conductor', 'nova-compute'])
def test_beside_a_living_service_of_nova_it_does_not_start(seen, binary):
    made = seen(binary, 10, str(uuid.uuid4()))
    with pytest.raises(errors.OptionError, match=f'{binary} is alive on h1.*--beside'):
        program.refuse_beside_nova(made)
    made.set_override('beside_nova', True)
    program.refuse_beside_nova(made)


@cases(
    'binary, seconds_ago, id_',
    ('silent', 'nova-conductor', 70, str(uuid.uuid4())),
    ('a scheduler', 'nova-scheduler', 10, str(uuid.uuid4())),
    ('our conductor', 'nova-conductor', 10, program.new_uuid()),
    ('our compute', 'nova-compute', 10, name_uuid('service', 'h1')),
)
def test_beside_others_it_starts(seen, binary, seconds_ago, id_):
    program.refuse_beside_nova(seen(binary, seconds_ago, id_))


def test_a_service_that_was_registered_just_now_is_alive(databases, seen):
    made = seen('nova-conductor', 70, str(uuid.uuid4()))
    with databases.cell.begin() as connection:
        change = {'last_seen_up': None, 'created_at': timeutils.utcnow()}
        connection.execute(tables.services.update().values(change))
    with pytest.raises(errors.OptionError, match='nova-conductor is alive'):
        program.refuse_beside_nova(made)
