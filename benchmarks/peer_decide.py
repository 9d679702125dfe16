# SPDX-License-Identifier: Apache-2.0
"""Time nova's own classes on hosts in memory; run by the peer's Python.

``benchmarks/decide.py --peer`` writes the hosts, the options and the request to it as
one JSON text, and reads the milliseconds of one decision and of 50 in a row.
"""

import datetime
import json
import logging
import statistics
import sys
import time
import warnings
from unittest import mock

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.pci import stats as pci_stats  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402

CONF = nova.conf.CONF
NOW = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
LONG_AGO = NOW - datetime.timedelta(days=1)
MOST_MS = 90000
SAME = {
    'total_usable_ram_mb': 65536,
    'total_usable_disk_gb': 1024,
    'vcpus_total': 8,
    'failed_builds': 0,
    'cpu_allocation_ratio': 4.0,
    'ram_allocation_ratio': 1.0,
    'disk_allocation_ratio': 1.0,
    'hypervisor_type': 'QEMU',
    'hypervisor_version': 8002002,
    'cpu_info': '{"arch": "x86_64", "model": "Cascadelake"}',
    'supported_instances': [['x86_64', 'kvm', 'hvm']],
}


def host_states(given):
    """Return the hosts, each with one instance, with all that nova looks up."""
    columns = given['columns']
    zones = [
        objects.Aggregate(
            id=n, name=f'agg{n}', metadata={'availability_zone': f'az{n}'}
        )
        for n in range(3)
    ]
    rows = zip(*columns.values(), strict=True)
    return [
        host_state(number, dict(zip(columns, row, strict=True)), given, zones)
        for number, row in enumerate(rows)
    ]


def host_state(number, row, given, zones):
    host = row.pop('host')
    state = host_manager.HostState(host, host, given['cell'])
    seen = NOW if row.pop('service_up') else LONG_AGO
    state.service = {
        'host': host,
        'binary': 'nova-compute',
        'topic': 'compute',
        'disabled': False,
        'disabled_reason': None,
        'forced_down': False,
        'last_seen_up': seen,
        'created_at': seen,
        'updated_at': seen,
    }
    image = given['images'][row.pop('image')]
    instance = objects.Instance(
        uuid=f'a0000000-0000-4000-8000-{number:012}',
        image_ref='',
        system_metadata={f'image_{name}': value for name, value in image.items()},
    )
    state.instances = {instance.uuid: instance}
    state.aggregates = [zones[row.pop('aggregates')]]
    state.metrics = objects.MonitorMetricList.from_json(row.pop('metrics'))
    state.pci_stats = pci_stats.PciDeviceStats(objects.NUMATopology(cells=[]))
    state.stats = {}
    for name, value in {**SAME, **row}.items():
        setattr(state, name, value)
    return state


def request_spec(asked):
    image, members = asked.get('image', {}), asked.get('group')
    return objects.RequestSpec(
        flavor=objects.Flavor(
            id=1,
            name='small',
            flavorid='1',
            vcpus=1,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=asked.get('extra_specs', {}),
        ),
        image=objects.ImageMeta.from_dict({'properties': image}),
        instance_group=members
        and objects.InstanceGroup(
            policy='anti-affinity',
            policies=['anti-affinity'],
            members=members,
            hosts=[],
            _rules={},
        ),
        scheduler_hints={},
        project_id='project',
        user_id='user',
        num_instances=1,
        **dict.fromkeys(
            (
                'numa_topology',
                'pci_requests',
                'requested_resources',
                'requested_destination',
                'availability_zone',
                'ignore_hosts',
                'force_hosts',
                'force_nodes',
                'retry',
                'limits',
            )
        ),
    )


def host_manager_without_databases():
    with mock.patch.multiple(
        host_manager.HostManager,
        refresh_cells_caches=mock.DEFAULT,
        _init_aggregates=mock.DEFAULT,
        _init_instance_info=mock.DEFAULT,
    ):
        return host_manager.HostManager()


def decide(manager, states, spec, index=0):
    spec.instance_uuid = f'b0000000-0000-4000-8000-{index:012}'
    passed = list(manager.get_filtered_hosts(states, spec, index))
    return [weighed.obj for weighed in manager.get_weighed_hosts(passed, spec)]


def in_a_row(manager, states, spec, count):
    for index in range(count):
        states = decide(manager, states, spec, index)
        states[0].consume_from_request(spec)
        if spec.instance_group:
            spec.instance_group.hosts.append(states[0].host)


def ms(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def times(given):
    manager, states = host_manager_without_databases(), host_states(given)
    spec, count = request_spec(given['request']), given['in_a_row']
    first = ms(lambda: decide(manager, states, spec))
    rounds = max(1, min(5, int(10000 / first)))
    one = statistics.median(
        ms(lambda: decide(manager, states, spec)) for _ in range(rounds)
    )
    if one * count > MOST_MS:
        return [one, None]
    return [one, ms(lambda: in_a_row(manager, states, spec, count))]


def main():
    given = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    for group, values in given['options'].items():
        for name, value in values.items():
            CONF.set_override(name, value, group)
    cell = objects.CellMapping(
        uuid=given['cell'], database_connection='sqlite://', transport_url='none:///'
    )
    with mock.patch.object(objects.CellMapping, 'get_by_uuid', return_value=cell):
        print(json.dumps(times(given)))  # noqa: T201


if __name__ == '__main__':
    main()
