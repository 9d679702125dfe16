# SPDX-License-Identifier: Apache-2.0
"""Make queries with the peer's own classes; run by the peer's Python.

Reads one JSON line ``{"clouds": [...]}``, of requests as data, and writes one
``{"answers": [...]}``, until its input ends; the first line that it writes has the
peer's version. Only public functions of nova.scheduler.utils are called.
"""

import importlib.metadata
import json
import logging
import sys
import warnings

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
from nova import context, objects  # noqa: E402
from nova.scheduler import utils  # noqa: E402

CONF = nova.conf.CONF
SETS = (
    'required_traits',
    'forbidden_traits',
    'forbidden_aggregates',
    'root_required',
    'root_forbidden',
)
IMAGE_ID = 'f0000000-7ff0-54c2-951c-428525f83c2f'


class Warnings(logging.Handler):
    """Keeps the warnings that are logged."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.kept = []

    def emit(self, record):
        self.kept.append(record.getMessage())


class Hosts:
    """Stands in for the host manager: finds the nodes of a request by name."""

    def __init__(self, nodes):
        self._nodes = nodes

    def get_compute_nodes_by_host_or_node(self, _context, host, node, cell=None):
        return objects.ComputeNodeList(
            objects=[
                objects.ComputeNode(uuid=uuid, host=its, hypervisor_hostname=name)
                for its, name, uuid in self._nodes
                if host in (None, its) and node in (None, name)
            ]
        )


def image(properties):
    if not properties:
        return None
    return objects.ImageMeta.from_dict(
        {'id': IMAGE_ID, 'name': 'image', 'properties': properties}
    )


def destination(given):
    if given is None:
        return None
    values = with_sets(given)
    if 'cell' in given:
        values['cell'] = objects.CellMapping(uuid=given['cell'])
    return objects.Destination(**values)


def with_sets(fields):
    return {
        name: set(value) if name in SETS else value for name, value in fields.items()
    }


def request_spec(given):
    groups = given['groups']
    made = objects.RequestSpec(
        flavor=objects.Flavor(id=1, name='flavor', flavorid='1', **given['flavor']),
        image=image(given['image']),
        requested_resources=groups
        and [objects.RequestGroup(**with_sets(each)) for each in groups],
        requested_destination=destination(given['destination']),
        force_hosts=given['force_hosts'],
        force_nodes=given['force_nodes'],
        scheduler_hints=given['hints'],
        request_level_params=objects.RequestLevelParams(**with_sets(given['level'])),
    )
    if given['is_bfv'] is not None:
        made.is_bfv = given['is_bfv']
    return made


def answer(given, said):
    """Return the queries of a request, or what it raises; and the warnings."""
    said.kept.clear()
    CONF.set_override('max_placement_results', given['limit'], 'scheduler')
    hosts = Hosts(given['nodes'])
    try:
        asked = ask(request_spec(given), hosts, True)
        queries = [asked.to_querystring()]
        heard = list(said.kept)
        if asked.cpu_pinning_requested:
            # Of its own: the first query took amounts of zero out of the groups of
            # the request, and a group that has nothing left is an error.
            spec = request_spec(given)
            queries.append(ask(spec, hosts, False).to_querystring())
    except Exception as problem:  # noqa: BLE001
        return {'raises': type(problem).__name__, 'text': str(problem)}
    return {'queries': queries, 'warnings': heard}


def ask(spec, hosts, translates):
    return utils.resources_from_request_spec(
        context.get_admin_context(), spec, hosts, enable_pinning_translate=translates
    )


def write(message):
    sys.stdout.write(json.dumps(message) + '\n')
    sys.stdout.flush()


def main():
    logging.getLogger().setLevel(logging.CRITICAL)
    said = Warnings()
    logger = logging.getLogger('nova')
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(said)
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    write({'version': importlib.metadata.version('nova')})
    for line in sys.stdin:
        write({'answers': [answer(one, said) for one in json.loads(line)['clouds']]})


if __name__ == '__main__':
    main()
