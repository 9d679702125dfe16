# SPDX-License-Identifier: Apache-2.0
"""CPU time of ``novasched plan boot`` as a process, and where it goes.

Run from the checkout: ``.venv/bin/python -m benchmarks.plan [--hosts N ...]``. The
databases are SQLite files, and placement is a server here that answers at once; what
the real one takes comes on top.
"""

from __future__ import annotations

import argparse
import http.server
import resource
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path

from benchmarks.candidates import answer
from novasched.db import engines, tables
from novasched.ports import CELL0_UUID
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.clouds.configuration import make_conf
from tests.support.databases import databases

HOSTS = (16, 1000, 10000)
TIMES = 3
CONF = """[DEFAULT]
service_down_time = 86400
[api_database]
connection = sqlite:///{directory}/api
[database]
connection = sqlite:///{directory}/cell
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:{port}
[neutron]
auth_type = none
"""
STAGES = """
import time
began = time.process_time()
import sys
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.inspection.session import catalogue
from novasched.inspection.questions import plan
from novasched.inspection.session import session
from novasched.inspection.session.orders import BootOrder
from oslo_config import cfg
from novasched.process import configuration
conf = cfg.ConfigOpts()
for group, listed in session.options().items():
    conf.register_opts(listed, None if group == 'DEFAULT' else group)
configuration.read(conf, ['--config-file=' + sys.argv[1]], 'nova-scheduler')
imported = time.process_time()
with session.opened(conf) as cloud:
    read = time.process_time()
    flavor = catalogue.flavor_of('vcpus=1,ram=512,disk=10')
    wanted = cloud.maker.boot(flavor, order=BootOrder(count=20))
    assert plan.boot(cloud.run, wanted).fits == 20
    done = time.process_time()
print(f'{imported - began:.2f} {read - imported:.2f} {done - read:.2f}')
"""


def serve(content):
    """Answer every request with the same; return the server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fill(directory, uuids):
    """Write the databases of a cloud with these nodes."""
    conf, made = make_conf(), {}
    conf.set_override('connection', f'sqlite:///{directory}/cell', 'database')
    for name in ('api', 'cell'):
        engine = engines.cell_engine(conf, f'sqlite:///{directory}/{name}')
        made[name] = databases.Databases(engine, engine)
        made[name].create_tables()
    for cell_uuid in (CELL0_UUID, str(uuid.uuid4())):
        url = f'sqlite:///{directory}/cell'
        row = databases.cell_mapping(uuid=cell_uuid, database_connection=url)
        made['api'].add(tables.cell_mappings, row)
    now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
    names = [f'host-{number:05}' for number in range(len(uuids))]
    services = [
        databases.service(host=name, version=74, created_at=now, last_seen_up=now)
        for name in names
    ]
    nodes = [
        databases.node(
            uuid=node_uuid,
            host=name,
            hypervisor_hostname=name,
            memory_mb=65536,
            free_ram_mb=65536 - number % 97,
            free_disk_gb=90,
            supported_instances='[["x86_64", "kvm", "hvm"]]',
            created_at=now,
            updated_at=now,
        )
        for number, (name, node_uuid) in enumerate(zip(names, uuids, strict=True))
    ]
    for table, rows in ((tables.services, services), (tables.compute_nodes, nodes)):
        with made['cell'].cell.begin() as connection:
            connection.execute(table.insert(), rows)
    for each in made.values():
        each.cell.dispose()


def cpu_s():
    """The CPU time of all processes that were run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(hosts):
    """Print the least CPU time of the whole command, and of its stages."""
    uuids, content = answer(hosts, 0)
    with tempfile.TemporaryDirectory() as directory:
        server = serve(content)
        fill(directory, sorted(uuids))
        conf = Path(directory, 'nova.conf')
        conf.write_text(CONF.format(directory=directory, port=server.server_address[1]))
        command = [Path(sys.executable).parent / 'novasched', 'plan', 'boot']
        words = ['--count', '20', '--flavor', 'vcpus=1,ram=512,disk=10']
        took = []
        for _ in range(TIMES):
            since = cpu_s()
            subprocess.run(
                [*command, '--config-file', conf, *words],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            took.append(cpu_s() - since)
        stages = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', STAGES, conf],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        server.shutdown()
    print(  # noqa: T201
        f'{hosts} hosts: {min(took):.2f} s; imports and options {stages[0]} s, '
        f'first read {stages[1]} s, 20 servers {stages[2]} s'
    )


def main():
    """Measure clouds of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, nargs='+', default=HOSTS)
    for hosts in parser.parse_args().hosts:
        measure(hosts)


if __name__ == '__main__':
    main()
