# SPDX-License-Identifier: Apache-2.0
"""Run nova's request filters on specs; run by the peer's Python.

Reads one JSON line ``{"specs": [...]}`` and writes one ``{"answers": [...]}``, until
its input ends. Its argument is where it may make an API database, for aggregates;
the lowest compute version is told to it; Neutron and placement are a server in this
process.
"""

import http.server
import json
import sqlite3
import sys
import threading
import urllib.parse
import warnings

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
from keystoneauth1 import loading  # noqa: E402
from nova import context, exception, objects  # noqa: E402
from nova.db.api import api  # noqa: E402
from nova.objects import service  # noqa: E402
from nova.scheduler import request_filter  # noqa: E402

CONF = nova.conf.CONF
VERSIONS = {
    'versions': [
        {
            'id': 'v1.0',
            'min_version': '1.0',
            'max_version': '1.39',
            'status': 'CURRENT',
            'links': [{'rel': 'self', 'href': ''}],
        }
    ]
}
TABLES = {
    'aggregates': 'uuid, name',
    'aggregate_hosts': 'host, aggregate_id',
    'aggregate_metadata': '"key", value, aggregate_id',
}
EXTENSIONS = {'extensions': [{'alias': 'segment', 'name': 'Segment'}]}


class World:
    """What the spec at hand finds: set before each."""

    spec = None


class Services(http.server.BaseHTTPRequestHandler):
    """Neutron and placement, as far as request filters ask them."""

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        status, body = self._answer(url.path.strip('/').split('/'), url.query)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _answer(self, path, query):
        world = World.spec['world']
        if path == ['']:
            return 200, VERSIONS
        if path[1:] == ['extensions']:
            return 200, EXTENSIONS
        if path[0] == 'resource_providers':
            found = world['segments'].get(path[1], [])
            return 200, {'aggregates': found, 'resource_provider_generation': 1}
        if path[1] == 'ports':
            return 200, {'port': world['ports'][path[2]]}
        if len(path) == 3:
            return 200, {'subnet': {'segment_id': world['subnets'][path[2]]}}
        network = urllib.parse.parse_qs(query)['network_id'][0]
        segments = world['networks'][network]
        return 200, {'subnets': [{'segment_id': one} for one in segments]}


def start_services():
    """Serve, and let the configuration point there."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Services)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f'http://127.0.0.1:{server.server_port}'
    for group in ('neutron', 'placement'):
        options = loading.get_auth_plugin_conf_options('admin_token')
        CONF.register_opts(options, group)
        values = {'auth_type': 'admin_token', 'token': 't', 'endpoint': url}
        for name, value in {**values, 'endpoint_override': url}.items():
            CONF.set_override(name, value, group)


class ApiDatabase:
    """The database of the peer's that has the aggregates of the spec at hand."""

    def __init__(self, path):
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute('PRAGMA synchronous = OFF')
        for table, columns in TABLES.items():
            self._database.execute(
                f'CREATE TABLE {table} (id INTEGER PRIMARY KEY, created_at, '
                f'updated_at, {columns})'
            )
        CONF.set_override('connection', f'sqlite:///{path}', 'api_database')
        api.configure(CONF)

    def fill(self, aggregates):
        """Write the aggregates in the place of those that there are."""
        for table in TABLES:
            self._database.execute(f'DELETE FROM {table}')
        for number, (uuid, metadata) in enumerate(aggregates.items()):
            self._database.execute(
                'INSERT INTO aggregates (id, uuid, name) VALUES (?, ?, ?)',
                (number, uuid, uuid),
            )
            self._database.executemany(
                'INSERT INTO aggregate_metadata (aggregate_id, "key", value) '
                'VALUES (?, ?, ?)',
                [(number, *item) for item in metadata.items()],
            )


def spec_of(described):
    """Return the request that a spec describes."""
    image = objects.ImageMeta(
        name='image', properties=objects.ImageMetaProps(**described['properties'])
    )
    if described['disk_format']:
        image.disk_format = described['disk_format']
    networks = [objects.NetworkRequest(**one) for one in described['networks']]
    pci = [objects.InstancePCIRequest(**one) for one in described['pci_requests']]
    return objects.RequestSpec(
        flavor=objects.Flavor(
            name='flavor',
            vcpus=2,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=described['extra_specs'],
        ),
        image=image,
        is_bfv=described['is_bfv'],
        project_id=described['project_id'],
        availability_zone=described['availability_zone'],
        requested_networks=objects.NetworkRequestList(objects=networks),
        requested_resources=[
            objects.RequestGroup(
                requester_id=one['requester_id'],
                resources=one['resources'],
                required_traits=set(one['required_traits']),
            )
            for one in described['requested_resources']
        ],
        pci_requests=objects.InstancePCIRequests(requests=pci),
        requested_destination=None,
        request_level_params=objects.RequestLevelParams(
            root_required=set(described['root_required'])
        ),
    )


def answer(described):
    """Return what the request filters add, or how they refuse."""
    World.spec = described
    for name, value in described['options'].items():
        CONF.set_override(name, value, 'scheduler')
    spec = spec_of(described)
    user = context.RequestContext('user', 'project', auth_token='token')
    try:
        request_filter.process_reqspec(user, spec)
    except exception.NovaException as problem:
        return {'error': [type(problem).__name__, str(problem)]}
    destination = spec.requested_destination
    wanted = (destination and destination.aggregates) or []
    return {
        'root_required': sorted(spec.root_required),
        'root_forbidden': sorted(spec.root_forbidden),
        'member_of': [sorted(set(one.split(','))) for one in wanted],
        'not_member_of': sorted(
            (destination and destination.forbidden_aggregates) or []
        ),
        'groups': {
            group.requester_id: sorted(group.required_traits)
            for group in spec.requested_resources
        },
    }


def main():
    objects.register_all()
    CONF([], default_config_files=[], default_config_dirs=[])
    start_services()
    database = ApiDatabase(sys.argv[1])
    service.get_minimum_version_all_cells = lambda *_, **__: World.spec['version']
    for line in sys.stdin:
        answers = []
        for described in json.loads(line)['specs']:
            database.fill(described['aggregates'])
            answers.append(answer(described))
        sys.stdout.write(json.dumps({'answers': answers}) + '\n')
        sys.stdout.flush()


if __name__ == '__main__':
    main()
