# SPDX-License-Identifier: Apache-2.0
"""Show what nova's own hosts and requests are to a plugin; run by the peer's Python.

It makes the databases api, cell0 and cell1 in the directory that it is given, with all
tables that nova has, and says so in a line. Then it reads a line of JSON with requests,
as they travel, and writes by path what there is.
"""

import json
import os
import pathlib
import sys
import warnings

warnings.simplefilter('ignore')
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import sqlalchemy as sa  # noqa: E402
import surface  # noqa: E402
import surface_calls  # noqa: E402
from nova import config, context, objects  # noqa: E402
from nova.db.api import models as api_models  # noqa: E402
from nova.db.main import models  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402


def make_tables(directory):
    """Make databases with all tables."""
    for name in ('api', 'cell0', 'cell1'):
        base = api_models.BASE if name == 'api' else models.BASE
        engine = sa.create_engine(f'sqlite:///{directory}/{name}')
        base.metadata.create_all(engine)
        engine.dispose()


def configure(directory):
    """Let nova read these databases, as its scheduler is configured."""
    path = pathlib.Path(directory) / 'nova.conf'
    path.write_text(
        f'[DEFAULT]\ntransport_url = fake://\n'
        f'[api_database]\nconnection = sqlite:///{directory}/api\n'
        f'[database]\nconnection = sqlite:///{directory}/cell0\n'
    )
    config.parse_args(['nova-scheduler', '--config-file', str(path)])
    objects.register_all()


def hosts_for(request):
    """Return the hosts of a request, as the scheduler reads them."""
    manager = host_manager.HostManager()
    found = manager.get_host_states_by_uuids(context.get_admin_context(), None, request)
    return sorted(found, key=lambda host: host.host)


def main():
    directory = sys.argv[1]
    make_tables(directory)
    configure(directory)
    sys.stdout.write('tables\n')
    sys.stdout.flush()
    given = json.loads(sys.stdin.readline())
    requests = {
        name: objects.RequestSpec.obj_from_primitive(primitive)
        for name, primitive in given['requests'].items()
    }
    seen = surface.Surface()
    host = hosts_for(requests['01c'])[0]
    seen.walk('host', host)
    for name, request in requests.items():
        seen.walk(f'request {name}', request)
        seen.ask_for_devices(name, host, request)
    seen.walk('request unset', objects.RequestSpec())
    surface_calls.call_each(seen, host, given['exceptions'])
    json.dump(seen.found, sys.stdout, default=repr)


if __name__ == '__main__':
    main()
