# SPDX-License-Identifier: Apache-2.0
"""Time decisions over 1,000, 10,000 and 100,000 hosts, of one and of 50 instances.

Run from the checkout: ``.venv/bin/python -m benchmarks.decide``. Prints medians in
milliseconds, for nova's default filters and weighers (``default``) and for all of
nova 34 that are installed, metrics and images at work (``all``): with a plain
request, with one that asks for an image's architecture and a capability, and with one
of a server group. ``50 in a row`` decides and consumes 50 times, as one request for
50 instances does; its server group has them all as members, and grows. ``--peer``
runs nova's own classes on the same hosts, for 1,000 and 10,000, in ``.venv-peer``;
``--hosts`` chooses other numbers. Last come the most memory that the process had, and
how much more of it is in use after 1,500 decisions than after 500.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc

import numpy as np
from oslo_config import cfg

from novasched.plugins import profile_from_conf
from novasched.process import opts
from novasched.scheduler.hosts import Categories, consume
from novasched.scheduler.pipeline import decide, run_filters, weigh
from tests.support.clouds import factories

ROOT = pathlib.Path(__file__).parent.parent
PEER = ROOT / '.venv-peer/bin/python', ROOT / 'benchmarks/peer_decide.py'
PEER_HOSTS = 10000
IN_A_ROW = 50
CELL = 'c1c1c1c1-0000-4000-8000-000000000001'
ALL_FILTERS = [
    'AggregateImagePropertiesIsolation',
    'AggregateInstanceExtraSpecsFilter',
    'AggregateIoOpsFilter',
    'AggregateMultiTenancyIsolation',
    'AggregateNumInstancesFilter',
    'AggregateTypeAffinityFilter',
    'AllHostsFilter',
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'DifferentHostFilter',
    'ImagePropertiesFilter',
    'IoOpsFilter',
    'IsolatedHostsFilter',
    'JsonFilter',
    'MetricsFilter',
    'NumInstancesFilter',
    'NUMATopologyFilter',
    'PciPassthroughFilter',
    'SameHostFilter',
    'ServerGroupAffinityFilter',
    'ServerGroupAntiAffinityFilter',
    'SimpleCIDRAffinityFilter',
]
REQUESTS = {
    'plain': {'image': {'os_distro': 'windows'}},
    'asking': {
        'image': {'os_distro': 'windows', 'hw_architecture': 'x86_64'},
        'extra_specs': {'capabilities:cpu_info:arch': 'x86_64'},
    },
    'group': {
        'group': [
            *(f'a0000000-0000-4000-8000-{number:012}' for number in range(10)),
            *(f'b0000000-0000-4000-8000-{number:012}' for number in range(IN_A_ROW)),
        ]
    },
}
IMAGES = [
    {'os_distro': distro, 'hw_machine_type': machine, 'hw_disk_bus': 'virtio'}
    for distro in ('windows', 'linux')
    for machine in ('pc', 'q35')
]


def installed():
    """Return those of nova's filters that stand in setup.cfg, in nova's order."""
    lines = (ROOT / 'setup.cfg').read_text().splitlines()
    known = {line.split(' = ')[0].strip() for line in lines if ' = ' in line}
    return [name for name in ALL_FILTERS if name in known]


OPTIONS = {
    'default': {},
    'all': {
        'filter_scheduler': {
            'enabled_filters': installed(),
            'image_props_weight_multiplier': 1.0,
        },
        'metrics': {'weight_setting': ['cpu.frequency=0.001', 'cpu.percent=-1']},
    },
}


def profile(options):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='novasched', default_config_files=[])
    for group, values in options.items():
        for name, value in values.items():
            conf.set_override(name, value, group)
    return profile_from_conf(conf)


def cluster(count):
    """Return the columns of hosts in three zones, filled by chance, as plain JSON."""
    rng = random.Random(count)

    def several(make):
        return [make(number) for number in range(count)]

    return {
        'host': several(lambda number: f'compute-{number:06}'),
        'aggregates': several(lambda number: number % 3),
        'free_ram_mb': several(lambda _: rng.randrange(4096, 65536, 512)),
        'free_disk_mb': several(lambda _: rng.randrange(64, 1024) * 1024),
        'vcpus_used': several(lambda _: rng.randrange(0, 16)),
        'num_instances': several(lambda _: rng.randrange(0, 20)),
        'num_io_ops': several(lambda _: rng.randrange(0, 3)),
        'service_up': several(lambda _: rng.random() > 0.01),
        'metrics': several(lambda number: metrics(number, rng)),
        'image': several(lambda _: rng.randrange(len(IMAGES))),
    }


def metrics(number, rng):
    """Return the metrics of one host; no two have the same text."""
    at = f'2026-11-21T12:00:00.{number:06}'
    values = {'cpu.frequency': rng.randrange(800, 4000), 'cpu.percent': rng.random()}
    return json.dumps(
        [
            {'name': name, 'value': value, 'timestamp': at, 'source': 'libvirt'}
            for name, value in values.items()
        ]
    )


def uuid(number):
    return f'a0000000-0000-4000-8000-{number:012}'


def table(columns):
    """Return the hosts, each with one instance."""
    zones = [(factories.aggregate(n, availability_zone=f'az{n}'),) for n in range(3)]
    count = len(columns['host'])
    hosts = factories.hosts(
        **{k: v for k, v in columns.items() if k not in ('image', 'metrics')}
        | {'aggregates': [zones[number] for number in columns['aggregates']]},
        cell_uuid=[CELL] * count,
        cpu_info=['{"arch": "x86_64", "model": "Cascadelake"}'] * count,
        instances=[{uuid(number): None} for number in range(count)],
        instance_images=[
            {uuid(number): IMAGES[image]}
            for number, image in enumerate(columns['image'])
        ],
    )
    distinct = Categories(columns['metrics'], np.arange(count))
    return hosts.with_columns(metrics=distinct)


def request(asked):
    members = asked.get('group')
    return factories.request(
        image=asked.get('image'),
        extra_specs=asked.get('extra_specs'),
        instance_group=members and factories.group(members=members),
    )


def in_a_row(profile, hosts, asked, rng):
    """Decide on instances one after the other, each consuming its host."""
    for index in range(IN_A_ROW):
        asked = asked.for_instance(f'b0000000-0000-4000-8000-{index:012}')
        hosts = decide(profile, hosts, asked, rng, index).ranked
        best = hosts.state(0)
        hosts = consume(hosts, best._row, asked)
        asked = asked.with_group_on(best.host)


def median_ms(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def ours(profile, hosts, asked):
    """Return milliseconds: one decision, its filters, its weighers, 50 in a row."""
    rng = random.Random(1)
    survivors, _ = run_filters(profile.filters, hosts, asked)
    rounds = max(5, 100000 // len(hosts))
    return [
        median_ms(lambda: decide(profile, hosts, asked, rng), rounds),
        median_ms(lambda: run_filters(profile.filters, hosts, asked), rounds),
        median_ms(lambda: weigh(profile.weighers, survivors, asked), rounds),
        median_ms(lambda: in_a_row(profile, hosts, asked, rng), max(1, rounds // 20)),
    ]


def growth_kib(profile, hosts, asked):
    """Return how much more memory 1,000 decisions keep than the 500 before them."""
    rng, used = random.Random(1), []
    tracemalloc.start()
    for times in (10, 20):
        for _ in range(times):
            in_a_row(profile, hosts, asked, rng)
        gc.collect()
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return (used[1] - used[0]) / 1024


def peers(columns, options, asked):
    """Return milliseconds of nova's classes: one decision, 50 in a row.

    None for 50 that would take more than a minute and a half.
    """
    given = {
        'columns': columns,
        'options': options,
        'request': asked,
        'images': IMAGES,
        'cell': CELL,
        'in_a_row': IN_A_ROW,
    }
    done = subprocess.run(
        [str(part) for part in PEER],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000, 100000])
    parser.add_argument('--peer', action='store_true', help='time nova beside it')
    return parser.parse_args()


def main():
    """Print one line per number of hosts, set of plugins and kind of request."""
    args = arguments()
    heads = ['decide', 'filters', 'weighers', '50 in a row']
    heads += ['peer', 'peer, 50'] if args.peer else []
    print(f'{"hosts":>7}  set      request', *(f'{head:>11}' for head in heads))  # noqa: T201
    for count in args.hosts:
        columns = cluster(count)
        hosts = table(columns)
        for name, options in OPTIONS.items():
            chosen = profile(options)
            for kind, asked in REQUESTS.items():
                times = ours(chosen, hosts, request(asked))
                if args.peer and count <= PEER_HOSTS:
                    times += peers(columns, options, asked)
                texts = ('-' if ms is None else f'{ms:.2f}' for ms in times)
                row = ' '.join(f'{text:>11}' for text in texts)
                print(f'{count:7}  {name:8} {kind:7} {row}', flush=True)  # noqa: T201
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f'most memory: {peak_mib} MiB')  # noqa: T201
    kept = growth_kib(profile({}), table(cluster(1000)), request(REQUESTS['group']))
    print(f'kept by 1,000 decisions: {kept:.1f} KiB')  # noqa: T201


if __name__ == '__main__':
    sys.exit(main())
