# SPDX-License-Identifier: Apache-2.0
"""Decide on clouds with the peer's own classes; run by the peer's Python.

Reads one JSON line ``{"clouds": [...]}`` and writes one ``{"answers": [...]}``, until
its input ends; the first line that it writes names the peer's filters and weighers.
Only what a plugin author may call is called: ``host_manager``'s classes, the handlers,
filters, weighers and objects.
"""

import datetime
import importlib.metadata
import json
import logging
import re
import sqlite3
import sys
import warnings

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
import nova.weights  # noqa: E402
from nova import context, objects  # noqa: E402
from nova.scheduler import filters, host_manager, weights  # noqa: E402

CONF = nova.conf.CONF
CELL = '00000000-0000-4000-8000-000000000001'
LONG_AGO = datetime.datetime(2020, 1, 1)  # noqa: DTZ001 - as its database gives it
STARTING = re.compile(r'Starting with (\d+) host')
FILTERED = re.compile(r'Filter (\w+) returned (\d+) host')

WEIGHT_HANDLER = weights.HostWeightHandler()
FILTERS = {cls.__name__: cls for cls in filters.all_filters()}
WEIGHERS = {cls.__name__: cls for cls in weights.all_weighers()}


class Manager(host_manager.HostManager):
    """A host manager that has no database to read cells from."""

    def refresh_cells_caches(self):
        pass


class Lines(logging.Handler):
    """Keeps what a logger says while it is listened to."""

    def __init__(self, name, level):
        super().__init__()
        self.kept = []
        self._logger = logging.getLogger(name)
        self._logger.propagate = False
        self._level = level
        self.stop()
        self._logger.addHandler(self)

    def emit(self, record):
        self.kept.append(record.getMessage())

    def listen(self):
        self.kept.clear()
        self._logger.setLevel(self._level)

    def stop(self):
        self._logger.setLevel(logging.CRITICAL)


def funnel(lines):
    """Return a line for each filter that ran, as nova sums it up, from its log."""
    steps, before = [], None
    for line in lines:
        if found := STARTING.match(line):
            before = found[1]
        elif found := FILTERED.match(line):
            steps.append(f'{found[1]}: (start: {before}, end: {found[2]})')
            before = found[2]
    return steps


class Cell:
    """A cell's database, of which a weigher reads the properties of images."""

    def __init__(self, path):
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute('PRAGMA synchronous = OFF')
        self._database.execute(
            'CREATE TABLE instance_system_metadata (id INTEGER PRIMARY KEY, "key", '
            'value, instance_uuid, created_at, updated_at, deleted_at, deleted)'
        )
        self._connection = f'sqlite:///{path}'
        self._targeted = context.get_admin_context()
        context.set_target_cell(self._targeted, self.mapping(None, CELL))

    def mapping(self, _context, uuid):
        """Return the mapping of any cell; all are this one."""
        return objects.CellMapping(
            uuid=uuid,
            name='cell',
            transport_url='none:///',
            database_connection=self._connection,
            disabled=False,
        )

    def instance(self, uuid):
        """Return an instance that looks up the rest of it in this cell.

        With a reference to its image; without, nova reads the instance one by one.
        """
        return objects.Instance(self._targeted, uuid=uuid, image_ref='')

    def fill(self, images):
        """Keep the properties of images by uuid of the instance, and no others."""
        rows = [
            (f'image_{name}', value, uuid)
            for uuid, properties in images.items()
            for name, value in properties.items()
        ]
        self._database.execute('BEGIN')
        self._database.execute('DELETE FROM instance_system_metadata')
        self._database.executemany(
            'INSERT INTO instance_system_metadata '
            '("key", value, instance_uuid, deleted) VALUES (?, ?, ?, 0)',
            rows,
        )
        self._database.execute('COMMIT')


def compute_node(values):
    """Return the row of a node from the values of its host."""
    pools = values['pci_stats']
    made = objects.ComputeNode(
        uuid=values['uuid'],
        host=values['host'],
        hypervisor_hostname=values['nodename'],
        memory_mb=values['total_usable_ram_mb'],
        free_ram_mb=values['free_ram_mb'],
        local_gb=values['total_usable_disk_gb'],
        local_gb_used=values['disk_mb_used'] // 1024,
        free_disk_gb=values['free_disk_mb'] // 1024,
        disk_available_least=None,
        vcpus=values['vcpus_total'],
        vcpus_used=values['vcpus_used'],
        numa_topology=None,
        pci_device_pools=pools
        and objects.PciDevicePoolList.obj_from_primitive(json.loads(pools)),
        host_ip=values['host_ip'],
        hypervisor_type=values['hypervisor_type'],
        hypervisor_version=values['hypervisor_version'],
        cpu_info=None,
        metrics=values['metrics'],
        stats=values['stats'],
        cpu_allocation_ratio=values['cpu_allocation_ratio'],
        ram_allocation_ratio=values['ram_allocation_ratio'],
        disk_allocation_ratio=values['disk_allocation_ratio'],
        updated_at=None,
    )
    if values['supported_instances'] is not None:
        specs = map(objects.HVSpec.from_list, values['supported_instances'])
        made.supported_hv_specs = list(specs)
    return made


def service(values):
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    seen = now if values['service_up'] else LONG_AGO
    return {
        'host': values['host'],
        'binary': 'nova-compute',
        'topic': 'compute',
        'disabled': values['service_disabled'],
        'disabled_reason': None,
        'forced_down': False,
        'last_seen_up': seen,
        'created_at': seen,
        'updated_at': seen,
    }


def host_state(values, cell):
    """Return a host; one without a uuid never reported its usage."""
    state = host_manager.HostState(
        values['host'], values['nodename'], values['cell_uuid']
    )
    node = compute_node(values) if values['uuid'] else None
    state.update(
        compute=node or objects.ComputeNode(uuid=state.cell_uuid, free_disk_gb=None),
        service=service(values),
        aggregates=[
            objects.Aggregate(id=number, name=f'agg{number}', metadata=metadata)
            for number, metadata in enumerate(values['aggregates'])
        ],
        inst_dict={uuid: cell.instance(uuid) for uuid in values['instances']},
    )
    state.cpu_info = values['cpu_info']
    return state


def flavor(asked):
    made = objects.Flavor(
        id=1,
        name=asked['flavor_name'],
        flavorid='1',
        vcpus=asked['vcpus'],
        memory_mb=asked['memory_mb'],
        root_gb=asked['root_gb'],
        ephemeral_gb=asked['ephemeral_gb'],
        swap=asked['swap'],
    )
    if asked['extra_specs'] is not None:
        made.extra_specs = asked['extra_specs']
    return made


def image(asked):
    if asked['image'] is None:
        return None
    made = {'properties': asked['image']}
    if asked['image_id'] is not None:
        made['id'] = asked['image_id']
    return objects.ImageMeta.from_dict(made)


def group(asked):
    given = asked['group']
    if given is None:
        return None
    made = objects.InstanceGroup(
        policy=given['policy'],
        members=given['members'],
        hosts=given['hosts'],
        _rules=given['rules'],
    )
    if given.get('has_policies', True):
        made.policies = [given['policy']]
    return made


def destination(asked):
    given = asked['destination']
    if given is None:
        return None
    made = objects.Destination(allow_cross_cell_move=given['allow_cross_cell_move'])
    if 'host' in given:
        made.host, made.node = given['host'], given['node']
    if given['cell'] is not None:
        made.cell = objects.CellMapping(uuid=given['cell'])
    return made


def request_spec(asked):
    made = objects.RequestSpec(
        flavor=flavor(asked),
        image=image(asked),
        instance_group=group(asked),
        requested_destination=destination(asked),
        project_id=asked['project_id'],
        user_id='user',
        num_instances=1,
        ignore_hosts=asked['ignore_hosts'],
        force_hosts=asked['force_hosts'],
        force_nodes=asked['force_nodes'],
        availability_zone=None,
        numa_topology=None,
        pci_requests=None,
        requested_resources=None,
        retry=None,
        limits=None,
    )
    if 'scheduler_hints' in asked:
        made.scheduler_hints = asked['scheduler_hints']
    return made


def passes(filter_, states, spec):
    """Return whether each host passes, or the name of what the filter raised.

    The hosts go through the filter together; one by one where it raises.
    """
    try:
        left = set(map(id, filter_.filter_all(states, spec)))
    except Exception:  # noqa: BLE001
        return [_passes_alone(filter_, state, spec) for state in states]
    return [id(state) in left for state in states]


def _passes_alone(filter_, state, spec):
    try:
        return bool(list(filter_.filter_all([state], spec)))
    except Exception as problem:  # noqa: BLE001
        return type(problem).__name__


class Heard:
    """A weigher, and the raw weights that it gave last."""

    def __init__(self, weigher):
        self.weigher = weigher
        self.raw = []
        self._weigh_objects = weigher.weigh_objects
        weigher.weigh_objects = self._hear

    def _hear(self, *args):
        self.raw = list(self._weigh_objects(*args))
        return self.raw


def weighed(weigher, states, spec):
    """Return what a weigher makes of the hosts, by stage, or what it raised."""
    heard = Heard(weigher)
    try:
        found = WEIGHT_HANDLER.get_weighed_objects([weigher], states, spec)
        weights_of = {one.obj.nodename: one.weight for one in found}
        answer = {'weights': [weights_of[state.nodename] for state in states]}
        if len(states) > 1:
            bounds = weigher.minval, weigher.maxval
            answer.update(
                raw=heard.raw,
                normalized=list(nova.weights.normalize(heard.raw, *bounds)),
                multipliers=[weigher.weight_multiplier(state) for state in states],
            )
        return answer
    except Exception as problem:  # noqa: BLE001
        return {'raises': type(problem).__name__}


def path(cls):
    return f'{cls.__module__}.{cls.__name__}'


class Decider:
    """Decides on clouds; the cell and the listeners serve all of them."""

    def __init__(self, cell):
        self._cell = cell
        self._funnel = Lines('nova.filters', logging.DEBUG)
        self._notes = Lines('nova.scheduler.host_manager', logging.INFO)

    def answer(self, cloud):
        """Return what each part makes of a cloud, and all of them together.

        A request or host that nova does not accept is answered with what it raised.
        """
        try:
            return self._answer(cloud)
        except Exception as problem:  # noqa: BLE001
            return {'refused': f'{type(problem).__name__}: {problem}'}

    def _answer(self, cloud):
        hosts = [{**cloud['every_host'], **one} for one in cloud['hosts']]
        spec = request_spec(cloud['request'])
        spec.instance_uuid = cloud['instances'][0]
        states = [host_state(values, self._cell) for values in hosts]
        self._cell.fill(
            {u: i for values in hosts for u, i in values['instance_images'].items()}
        )
        return {
            'filters': {
                name: passes(FILTERS[name](), states, spec)
                for name in cloud['all_filters']
            },
            'weighers': {
                name: weighed(WEIGHERS[name](), states, spec)
                for name in cloud['all_weighers']
            },
            'decisions': self._decisions(cloud, states, spec),
        }

    def _decisions(self, cloud, states, spec):
        used = [path(FILTERS[name]) for name in cloud['filters']]
        CONF.set_override('available_filters', used, 'filter_scheduler')
        CONF.set_override('enabled_filters', cloud['filters'], 'filter_scheduler')
        used = [path(WEIGHERS[name]) for name in cloud['weighers']]
        CONF.set_override('weight_classes', used, 'filter_scheduler')
        manager = Manager()
        made = []
        for index, uuid in enumerate(cloud['instances']):
            spec.instance_uuid = uuid
            try:
                decision, states = self._decide(manager, states, spec, index)
            except Exception as problem:  # noqa: BLE001
                made.append({'raises': type(problem).__name__})
                break
            made.append(decision)
            weighed = [weight for _, weight in decision['ranked']]
            if not states or any(weight != weight for weight in weighed):
                break
            take(states[0], spec, self._cell)
            decision['taken'] = f'{states[0]!r} vcpus: {states[0].vcpus_used}'
        return made

    def _decide(self, manager, states, spec, index):
        self._funnel.listen()
        self._notes.listen()
        try:
            left = manager.get_filtered_hosts(iter(states), spec, index)
            ranked = manager.get_weighed_hosts(left, spec) if left else []
        finally:
            self._funnel.stop()
            self._notes.stop()
        decision = {
            'steps': funnel(self._funnel.kept),
            'notes': list(self._notes.kept),
            'ranked': [(one.obj.nodename, one.weight) for one in ranked],
        }
        return decision, [one.obj for one in ranked]


def take(state, spec, cell):
    state.consume_from_request(spec)
    if spec.instance_group is not None:
        spec.instance_group.hosts.append(state.host)
        uuid = spec.instance_uuid
        state.instances.setdefault(uuid, cell.instance(uuid))


def set_options(options):
    for name in ('filter_scheduler', 'metrics'):
        for option in CONF[name]:
            CONF.clear_override(option, name)
    for name, values in options.items():
        for option, value in values.items():
            if option in CONF[name]:  # one of an older nova may lack it
                CONF.set_override(option, value, name)
    CONF.set_override('track_instance_changes', False, 'filter_scheduler')


def write(message):
    sys.stdout.write(json.dumps(message) + '\n')
    sys.stdout.flush()


def main():
    logging.getLogger().setLevel(logging.CRITICAL)
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    cell = Cell(sys.argv[1])
    objects.CellMapping.get_by_uuid = cell.mapping
    objects.AggregateList.get_all = lambda _context: objects.AggregateList(objects=[])
    decider = Decider(cell)
    names = {
        'version': importlib.metadata.version('nova'),
        'filters': sorted(FILTERS),
        'weighers': sorted(WEIGHERS),
    }
    write(names)
    for line in sys.stdin:
        answers = []
        for cloud in json.loads(line)['clouds']:
            set_options(cloud['options'])
            answers.append(decider.answer(cloud))
        write({'answers': answers})


if __name__ == '__main__':
    main()
