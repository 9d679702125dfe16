# SPDX-License-Identifier: Apache-2.0
"""A conductor's neighbours: databases in files, all others played."""

import json
import uuid
from collections import Counter

import oslo_messaging

from novasched import errors
from novasched.db import engines, tables
from novasched.inspection.session.server_request import request_spec
from novasched.objects.context import RequestContext
from novasched.objects.selection import Selection
from novasched.ports import CELL0_UUID, Claimed, ClaimRefused, ClaimUnknown
from novasched_lab.api.new_instance import instance_of
from novasched_lab.cells import CellLinks
from novasched_lab.conductor.task import ConductorContext
from novasched_lab.db.api_servers import ApiServers
from tests.support.clouds import factories
from tests.support.databases import databases as rows

CELL1_UUID = 'cell1000-0000-4000-8000-000000000001'


def flavor(**values):
    """A flavor as the API has it, complete."""
    made = factories.request(**values).flavor
    made.assign(disabled=False, is_public=True, description=None)
    return made


def context():
    """The context of a user."""
    return RequestContext(user_id='user', project_id='project', overwrite=False)


def selection(host, uuid=None, **values):
    """A host that was chosen, with what it would be claimed by."""
    claim = {'allocations': {f'rp-{host}': {'resources': {'VCPU': 1}}}, 'mappings': {}}
    fields = {
        'compute_node_uuid': f'node-{host}',
        'service_host': host,
        'nodename': f'{host}.example.org',
        'cell_uuid': CELL1_UUID,
        'limits': None,
        'allocation_request': json.dumps(claim),
        'allocation_request_version': '1.36',
        'availability_zone': 'az1',
        **values,
    }
    return Selection(**fields)


class Schedulers:
    """Chooses the same hosts for everybody, or raises."""

    def __init__(self, *hosts):
        self.hosts = hosts
        self.raises = None
        self.asked = []

    def select_destinations(self, context, request, uuids):
        self.asked.append((request, list(uuids)))
        if self.raises is not None:
            raise self.raises
        return [[selection(host) for host in self.hosts] for _ in uuids]


class Placement:
    """Takes claims but those on hosts that are full, or in conflict so many times."""

    def __init__(self):
        self.full = set()
        self.silent = set()
        self.conflicts = Counter()
        self.claimed = []

    def claim(self, context, wanted, version, project_id, user_id):
        consumer_uuid = wanted.consumer_uuid
        (provider,) = wanted.candidate['allocations']
        host = provider.removeprefix('rp-')
        if host in self.silent:
            return ClaimUnknown(consumer_uuid, 'no answer')
        if host in self.full:
            return ClaimRefused(409, 'full')
        if self.conflicts[host]:
            self.conflicts[host] -= 1
            return ClaimRefused(409, 'changed', conflicted=True)
        self.claimed.append((consumer_uuid, host))
        return Claimed(consumer_uuid)


class Allocations:
    """Keeps what is removed and swapped."""

    def __init__(self):
        self.removed = Counter()
        self.swapped = []
        self.swaps = True

    def remove(self, context, consumer):
        self.removed[consumer] += 1
        return True

    def swap(self, context, source, target):
        self.swapped.append((source, target))
        return self.swaps


class Computes:
    """Keeps what it is told; while ``silent``, the broker is gone."""

    def __init__(self):
        self.told = []
        self.silent = False

    def build_and_run_instance(self, context, host, **arguments):
        self._tell('build', host, arguments)

    def prep_resize(self, context, host, **arguments):
        self._tell('prep_resize', host, arguments)

    def terminate_instance(self, context, host, instance):
        self._tell('terminate', host, {'instance': instance})

    def _tell(self, what, host, arguments):
        if self.silent:
            raise oslo_messaging.MessageDeliveryFailure('the broker is gone')
        self.told.append((what, host, arguments))


class Neighbours:
    """All of it; ``context`` is what a conductor gets."""

    def __init__(self, databases, conf, directory):
        self.databases = databases
        self.api = ApiServers(databases.api)
        self.computes = Computes()
        self.schedulers = Schedulers('h1', 'h2')
        self.placement = Placement()
        self.allocations = Allocations()
        ids = databases.add(
            tables.cell_mappings,
            self._cell(CELL0_UUID, 'cell0', f'sqlite:///{directory}/cell0'),
            self._cell(CELL1_UUID, 'cell1', f'sqlite:///{directory}/cell'),
        )
        hosts = [{'host': host, 'cell_id': ids[1]} for host in ('h1', 'h2')]
        databases.add(tables.host_mappings, *hosts)
        made = rows.Databases(
            databases.api, engines.main_engine(conf(f'sqlite:///{directory}/cell0'))
        )
        made.create_tables()
        made.cell.dispose()
        self.cells = CellLinks(
            self.api, lambda url: engines.cell_engine(conf(url), url), lambda url: None
        )
        self.cells._computes = lambda cell: (
            None if cell.uuid == CELL0_UUID else self.computes
        )
        self.cell0 = self.cells.cell0().servers
        self.cell1 = self.cells.link(CELL1_UUID).servers
        self.context = self.made_context()

    @staticmethod
    def _cell(uuid, name, url):
        return rows.cell_mapping(uuid=uuid, name=name, database_connection=url)

    def made_context(self, **values):
        """The context of a conductor."""
        fields = {
            'api': self.api,
            'cells': self.cells,
            'schedulers': self.schedulers,
            'placement': self.placement,
            'allocations': self.allocations,
            'host': 'conductor',
            **values,
        }
        return ConductorContext(**fields)

    def ask_for(self, count=1, **values):
        """Leave behind what the API does; return instances and their requests."""
        found = []
        for number in range(count):
            request = request_spec(
                str(uuid.uuid4()),
                flavor(**values),
                {'id': 'image'},
                project_id='project',
                user_id='user',
            )
            found.append((instance_of(request, f'vm-{number}'), request))
        self.api.ask_for(found)
        return found


def no_valid_host():
    """What a client of the scheduler raises when there is no host."""
    return oslo_messaging.RemoteError(
        'NoValidHost', str(errors.NoValidHost('')), ['traceback']
    )
