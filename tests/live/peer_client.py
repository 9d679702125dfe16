# SPDX-License-Identifier: Apache-2.0
"""Send real requests with the peer's own RPC client; run by the peer's Python.

Reads one JSON request per line and writes one JSON answer per line, in any order:
`{"id", "op", "url", "level", "args"}` to `{"id", "result"}` or `{"id", "error"}`.
"""

import os

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'  # up to nova 32

from nova import monkey_patch

if hasattr(monkey_patch, 'patch'):
    try:
        monkey_patch.patch(backend='threading')
    except TypeError:  # nova 32
        monkey_patch.patch()

import json
import sys
import threading

import nova.conf
import oslo_messaging as messaging
from nova import baserpc, config, context, objects, rpc
from nova.scheduler import rpcapi
from nova.virt import hardware
from oslo_versionedobjects.base import VersionedObject

CONF = nova.conf.CONF
PROJECT = '6f70656e737461636b20444556204954'
USER = 'c0ffee00c0ffee00c0ffee00c0ffee00'


class Clients:
    """One RPC client for each broker URL and version pin, made when first asked."""

    def __init__(self):
        self._made = {}
        self._lock = threading.Lock()

    def scheduler(self, url, level):
        """The peer's scheduler API, pinned to `level` (None: not pinned)."""
        return self._get(url, level, rpcapi.SchedulerAPI)

    def base(self, url):
        """The peer's base API for the topic of the scheduler."""
        return self._get(url, None, lambda: baserpc.BaseAPI(topic='scheduler'))

    def plain(self, url, version, namespace):
        """A bare RPC client that names a version and a namespace of our choice."""
        target = messaging.Target(
            topic='scheduler', version=version, namespace=namespace
        )
        return self._get(url, (version, namespace), lambda: rpc.get_client(target))

    def _get(self, url, key, make):
        with self._lock:
            found = self._made.get((url, key, make.__qualname__))
            if found is None:
                # The peer keeps one transport in a module global: a client made
                # after this holds the transport of this URL.
                CONF.set_override('transport_url', url)
                pin = key if isinstance(key, str) else None
                CONF.set_override('scheduler', pin, group='upgrade_levels')
                rpc.init(CONF)
                found = self._made[url, key, make.__qualname__] = make()
            return found


CLIENTS = Clients()


def _context(user_id=USER, project_id=PROJECT):
    return context.RequestContext(
        user_id=user_id,
        project_id=project_id,
        is_admin=False,
        roles=['member', 'reader'],
        user_name='alice',
        project_name='demo',
    )


def _flavor(vcpus=1, memory_mb=2048, root_gb=20, extra_specs=None):
    return objects.Flavor(
        id=1,
        flavorid='live',
        name='live.small',
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        description=None,
        extra_specs=extra_specs or {},
        created_at=None,
        updated_at=None,
        deleted_at=None,
        deleted=False,
    )


def _image(properties=None):
    return objects.ImageMeta.from_dict(
        {
            'id': '11111111-2222-4333-8444-555555555555',
            'name': 'debian',
            'status': 'active',
            'container_format': 'bare',
            'disk_format': 'qcow2',
            'size': 500 << 20,
            'min_ram': 0,
            'min_disk': 0,
            'owner': PROJECT,
            'checksum': None,
            'properties': properties or {'hw_architecture': 'x86_64'},
        }
    )


def _group(
    policy,
    members=(),
    hosts=(),
    rules=None,
    uuid='5c3dbbaa-7ff0-54c2-951c-428525f83c2f',
):
    return objects.InstanceGroup(
        uuid=uuid,
        name='group',
        user_id=USER,
        project_id=PROJECT,
        policy=policy,
        policies=[policy],
        rules=rules or {},
        members=list(members),
        hosts=list(hosts),
    )


def _spec(ctxt, uuids, fields):
    """The RequestSpec that the API and the conductor build for a boot."""
    flavor = _flavor(**fields.pop('flavor', {}))
    image = _image(fields.pop('image', None))
    first = uuids[0]
    spec = objects.RequestSpec.from_components(
        ctxt,
        first,
        image,
        flavor,
        hardware.numa_get_constraints(flavor, image),
        objects.InstancePCIRequests(instance_uuid=first, requests=[]),
        {},
        None,
        fields.pop('zone', None),
        security_groups=objects.SecurityGroupList(objects=[]),
    )
    spec.num_instances = fields.pop('num_instances', len(uuids))
    spec.network_metadata = objects.NetworkMetadata(physnets=set(), tunneled=False)
    spec.requested_networks = objects.NetworkRequestList(objects=[])
    spec.is_bfv = False
    if group := fields.pop('group', None):
        spec.instance_group = _group(**group)
    if destination := fields.pop('destination', None):
        cell = destination.pop('cell', None)
        spec.requested_destination = objects.Destination(**destination)
        if cell is not None:
            spec.requested_destination.cell = objects.CellMapping(**cell)
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec


def select(url, level, uuids, spec, **options):
    """Ask for destinations; give Selections, or what an older level answers."""
    ctxt = _context()
    request = _spec(ctxt, uuids, dict(spec))
    answer = CLIENTS.scheduler(url, level).select_destinations(
        ctxt, request, uuids, **options
    )
    return [_read(part) for part in answer]


def _read(part):
    """A Selection by its attributes, a list by its elements, the rest as it is."""
    if isinstance(part, list):
        return [_read(each) for each in part]
    if isinstance(part, objects.Selection):
        return {
            'version': part.VERSION,
            **{
                name: getattr(part, name)
                for name in part.fields
                if name != 'limits' and part.obj_attr_is_set(name)
            },
            'limits': part.limits.to_dict() if part.limits else None,
        }
    return part


def call(url, level, version, namespace, method, args, timeout):
    """Call any method under any version; give the answer as it came."""
    client = CLIENTS.plain(url, version, namespace)
    return client.prepare(timeout=timeout).call(_context(), method, **args)


def ping(url, level, arg, timeout):
    """Call the base API's ping."""
    return CLIENTS.base(url).ping(_context(), arg, timeout=timeout)


def get_backdoor_port(url, level, host):
    """Call the base API's get_backdoor_port on one server."""
    return CLIENTS.base(url).get_backdoor_port(_context(), host=host)


def _aggregate(fields):
    return objects.Aggregate(
        created_at=None, updated_at=None, deleted_at=None, deleted=False, **fields
    )


def update_aggregates(url, level, aggregates):
    """Cast new contents of aggregates."""
    CLIENTS.scheduler(url, level).update_aggregates(
        _context(), [_aggregate(fields) for fields in aggregates]
    )


def delete_aggregate(url, level, aggregate):
    """Cast that an aggregate is gone."""
    CLIENTS.scheduler(url, level).delete_aggregate(_context(), _aggregate(aggregate))


def update_instance_info(url, level, host, uuids):
    """Cast instances that a host has now."""
    found = objects.InstanceList(
        objects=[objects.Instance(uuid=uuid, host=host) for uuid in uuids]
    )
    CLIENTS.scheduler(url, level).update_instance_info(_context(), host, found)


def delete_instance_info(url, level, host, uuid):
    """Cast that an instance has left a host."""
    CLIENTS.scheduler(url, level).delete_instance_info(_context(), host, uuid)


def sync_instance_info(url, level, host, uuids):
    """Cast the uuids of all instances of a host."""
    CLIENTS.scheduler(url, level).sync_instance_info(_context(), host, uuids)


OPS = {
    op.__name__: op
    for op in (
        select,
        call,
        ping,
        get_backdoor_port,
        update_aggregates,
        delete_aggregate,
        update_instance_info,
        delete_instance_info,
        sync_instance_info,
    )
}


def _error(failure):
    return {
        'class': type(failure).__name__.removesuffix('_Remote'),
        'module': type(failure).__module__.removesuffix('_Remote'),
        # The client appends the server's traceback on lines of its own.
        'text': str(failure).split('\nTraceback')[0],
        'exc_type': getattr(failure, 'exc_type', None),
        'value': getattr(failure, 'value', None),
        'kwargs': getattr(failure, 'kwargs', None),
    }


def _serve(request, write):
    try:
        result = OPS[request['op']](request['url'], request['level'], **request['args'])
        answer = {'result': result}
    except Exception as failure:  # noqa: BLE001 - whatever happens is the answer
        answer = {'error': _error(failure)}
    write({'id': request['id'], **answer})


def _plain(value):
    if isinstance(value, VersionedObject):
        return value.obj_to_primitive()
    return list(value) if isinstance(value, set) else str(value)


def main():
    """Answer requests until the input ends."""
    lock = threading.Lock()
    out = sys.stdout
    # Whatever a library prints must not stand between the answers.
    sys.stdout = sys.stderr

    def write(answer):
        with lock:
            out.write(json.dumps(answer, default=_plain) + '\n')
            out.flush()

    config.parse_args(
        ['peer-client', '--config-file', sys.argv[1]],
        default_config_files=[sys.argv[1]],
        init_rpc=False,
    )
    objects.register_all()
    # Registers the option that the clients override.
    messaging.TransportURL.parse(CONF)
    write({'id': None, 'result': 'ready'})
    for line in sys.stdin:
        request = json.loads(line)
        threading.Thread(target=_serve, args=(request, write), daemon=True).start()


if __name__ == '__main__':
    main()
