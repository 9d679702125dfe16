# SPDX-License-Identifier: Apache-2.0
"""Measure whole requests with a copy of placement, in this process: CPU milliseconds.

Run from the checkout: ``.venv/bin/python -m benchmarks.request [--hosts 10000]
[--requests 50] [--instances 1] [--history DIRECTORY] [--profile]``. The databases are
SQLite files, the notifications go nowhere, and placement answers each claim at once;
what is measured is the own work from the call of the manager to its answer, and that of
the whole process, with its records and the history.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import pstats
import random
import statistics
import tempfile
import time
import uuid

import numpy as np
import requests
import requests.adapters
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched import app
from novasched.db import engines, tables
from novasched.objects.context import RequestContext
from novasched.ports import CELL0_UUID
from novasched.providers.contents import Contents
from novasched.rpc.transport import transport_from_conf
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.databases import databases

URL = 'http://placement.stub'
TRAITS = 400
TRAITS_OF_HOST = 64


class Granting(requests.adapters.BaseAdapter):
    """A placement that grants every claim."""

    def send(self, request, **options):
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 204, request.url, request
        answer._content = b''
        return answer

    def close(self):
        pass


class Providers:
    """Providers that never change. Satisfies ports.ProviderStore."""

    reads_fast = True
    behind_s = 0.0

    def __init__(self, uuids):
        ids = np.arange(1, len(uuids) + 1)
        none = np.zeros((0, 3), np.int64)
        amounts = (0, 64), (1, 262144), (2, 2000)
        stocks = np.concatenate(
            [
                np.column_stack(
                    [ids, *(np.full_like(ids, n) for n in (rc, total, 0, 1, total, 1))]
                    + [np.full(len(ids), 16.0)] * 2
                )
                for rc, total in amounts
            ]
        )
        traits = np.column_stack(
            [
                np.repeat(ids, TRAITS_OF_HOST),
                np.tile(np.arange(1, TRAITS_OF_HOST + 1), len(ids)),
            ]
        )
        self._contents = Contents(
            providers=np.column_stack([ids, ids * 0 + 5, ids, ids * 0]),
            inventories=stocks.astype(np.float64),
            usage=none,
            traits=traits,
            aggregates=none[:, :2],
            uuids=dict(zip(ids.tolist(), uuids, strict=True)),
            class_names={0: 'VCPU', 1: 'MEMORY_MB', 2: 'DISK_GB'},
            trait_names={n: f'CUSTOM_{n}' for n in range(1, TRAITS)}
            | {1: 'OWNER_NOVA', TRAITS: 'COMPUTE_STATUS_DISABLED'},
            aggregate_uuids={},
        )

    def read(self, hints):
        return self._contents

    def read_since(self, before, include_unversioned, recheck, hints):
        return before

    def read_tree(self, uuid):
        return self._contents

    def trees(self, known, roots, with_aggregates, terms, generations):
        return None

    def holders(self, consumers):
        return {}

    def usages(self, mine):
        return {}

    def change_token(self):
        return 'quiet'

    def close(self):
        pass


class Silent:
    """Sends no notification."""

    def select_destinations(self, context, spec, phase):
        pass

    def of_release(self, release):
        return self


def compose(directory, hosts, history=None):
    """Return a scheduler for so many hosts, its view loaded."""
    conf = make_conf()
    conf.set_override('history_dir', history, 'novasched')
    conf.set_override('transport_url', 'fake://')
    conf.set_override('state_path', directory)
    conf.set_override('service_down_time', 86400)
    made = {}
    for name in ('api', 'cell'):
        conf.set_override('connection', f'sqlite:///{directory}/cell', 'database')
        engine = engines.cell_engine(conf, f'sqlite:///{directory}/{name}')
        made[name] = databases.Databases(engine, engine)
        made[name].create_tables()
    cells = (CELL0_UUID, 'cell'), (str(uuid.uuid4()), 'cell')
    for cell_uuid, name in cells:
        row = databases.cell_mapping(
            uuid=cell_uuid,
            name=name,
            database_connection=f'sqlite:///{directory}/{name}',
        )
        made['api'].add(tables.cell_mappings, row)
    uuids = [str(uuid.uuid4()) for _ in range(hosts)]
    now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
    nodes, services = [], []
    for number, node_uuid in enumerate(uuids):
        name = f'host-{number:05}'
        services.append(
            databases.service(
                host=name,
                version=74,
                created_at=now.replace(year=2020),
                last_seen_up=now,
            )
        )
        free = {'free_ram_mb': 262144 - 512 * (number % 97), 'free_disk_gb': 1900}
        nodes.append(
            databases.node(
                uuid=node_uuid,
                host=name,
                hypervisor_hostname=name,
                memory_mb=262144,
                supported_instances='[["x86_64", "kvm", "hvm"]]',
                created_at=now.replace(year=2020),
                updated_at=now.replace(year=2020),
                **free,
            )
        )
    for table, rows in ((tables.services, services), (tables.compute_nodes, nodes)):
        with made['cell'].cell.begin() as connection:
            connection.execute(table.insert(), rows)
    session = Session(auth=token_endpoint.Token(URL, 'token'))
    session.session.mount(URL, Granting())
    return app.compose(
        conf,
        app.Dependencies(
            api_engine=made['api'].api,
            make_cell_engine=functools.partial(engines.cell_engine, conf),
            placement=Adapter(session, endpoint_override=URL, raise_exc=False),
            transport=transport_from_conf(conf),
            notifier=Silent(),
            clock=SYSTEM_CLOCK,
            rng=random.Random(1),
            providers=Providers(uuids),
        ),
    )


def main():
    """Print the CPU time of one request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--requests', type=int, default=50)
    parser.add_argument('--instances', type=int, default=1)
    parser.add_argument('--history', metavar='DIRECTORY')
    parser.add_argument('--profile', action='store_true')
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scheduler = compose(directory, wanted.hosts, wanted.history)
        scheduler.view.load()
        scheduler.copy.keep_up()

        def ask():
            uuids = [str(uuid.uuid4()) for _ in range(wanted.instances)]
            request = factories.request(
                image={}, is_bfv=False, vcpus=2, memory_mb=2048, root_gb=20
            )
            since = time.thread_time()
            scheduler.manager.select_destinations(
                RequestContext(overwrite=False), request, uuids, True, True
            )
            return (time.thread_time() - since) * 1e3

        ask()
        profiler = cProfile.Profile(time.thread_time)
        if wanted.profile:
            profiler.enable()
        since = time.process_time()
        took = [ask() for _ in range(wanted.requests)]
        scheduler.close()
        all_s = time.process_time() - since
        profiler.disable()
        print(  # noqa: T201
            f'{wanted.hosts} hosts, {wanted.instances} instances: median '
            f'{statistics.median(took):.2f} ms, least {min(took):.2f} ms, '
            f'the process {all_s / wanted.requests * 1e3:.2f} ms a request'
        )
        if wanted.profile:
            pstats.Stats(profiler).sort_stats('cumulative').print_stats(60)
        scheduler.view.close()


if __name__ == '__main__':
    main()
