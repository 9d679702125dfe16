# SPDX-License-Identifier: Apache-2.0
"""Make requests of flavors and images as nova's API does; the peer's Python.

Reads JSON with ``orders`` and ``stored`` topologies, and writes the answers to each:
objects as they travel, or the name and the text of an error. There is no database: what
nova would write back is left out.
"""

import json
import os
import sys
import warnings

warnings.simplefilter('ignore')
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'

import nova.conf  # noqa: E402
from nova import context, exception, objects  # noqa: E402
from nova.compute import api  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.virt import hardware  # noqa: E402

CONF = nova.conf.CONF
UUID = 'c0000000-0000-4000-8000-000000000001'
USER = context.RequestContext('u', 'p', is_admin=False)


def request_of(order):
    """Return the request that an order becomes."""
    CONF.set_override('alias', order['aliases'], 'pci')
    pci_request.get_alias_from_config.cache_clear()
    CONF.set_override('pci_in_placement', order['in_placement'], 'filter_scheduler')
    flavor = objects.Flavor(**order['flavor'])
    image = objects.ImageMeta.from_dict(order['image'])
    api.API._validate_flavor_image_nostatus(
        USER, order['image'], flavor, root_bdm=None, validate_pci=True
    )
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    made = objects.RequestSpec.from_components(
        USER,
        order['uuid'],
        image,
        flavor,
        hardware.numa_get_constraints(flavor, image),
        pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy),
        {'scheduler_hints': order['hints']},
        None,
        order['zone'],
        security_groups=objects.SecurityGroupList(objects=[]),
        port_resource_requests=[],
        request_level_params=objects.RequestLevelParams(),
    )
    made.is_bfv = order['is_bfv']
    made.num_instances = order['count']
    made.requested_networks = objects.NetworkRequestList(objects=[])
    return made.obj_to_primitive()


def answer(order):
    """Return the request, or how the order is refused."""
    try:
        return {'request': request_of(order)}
    except (exception.NovaException, ValueError) as problem:
        return {'error': [type(problem).__name__, str(problem)]}


class Row(dict):
    """A row, whose columns are items and attributes."""

    __getattr__ = dict.__getitem__


def read(topology):
    """Return how nova reads a stored topology, as itself and in a stored request."""
    flavor = objects.Flavor(name='f', vcpus=2, memory_mb=512, extra_specs={})
    wanted = objects.RequestSpec(instance_uuid=UUID, flavor=flavor, numa_topology=None)
    text = wanted.obj_to_primitive()
    text['nova_object.data']['numa_topology'] = topology
    row = Row(id=1, instance_uuid=UUID, spec=json.dumps(text))
    request = objects.RequestSpec._from_db_object(USER, objects.RequestSpec(), row)
    kind = objects.InstanceNUMATopology
    alone = kind.obj_from_db_obj(USER, UUID, json.dumps(topology))
    return {
        'request': request.numa_topology.obj_to_primitive(),
        'topology': alone.obj_to_primitive(),
    }


if __name__ == '__main__':
    objects.register_all()
    CONF([], default_config_files=[], default_config_dirs=[])
    objects.RequestSpec.save = lambda _: None
    kind = objects.InstanceNUMATopology
    kind._save_migrated_cpuset_to_instance_extra = lambda *_: None
    asked = json.load(sys.stdin)
    orders = [answer(order) for order in asked['orders']]
    stored = [read(topology) for topology in asked['stored']]
    sys.stdout.write(json.dumps({'orders': orders, 'stored': stored}))
