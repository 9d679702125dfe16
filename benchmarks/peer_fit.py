# SPDX-License-Identifier: Apache-2.0
"""Time nova's own NUMATopologyFilter on hosts in memory; run by the peer's Python.

``benchmarks/fit.py --peer`` writes the hosts and the request to it as one JSON text,
and reads the milliseconds that the filter takes for all hosts.
"""

import json
import logging
import statistics
import sys
import time
import warnings

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.pci import stats as pci_stats  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.scheduler.filters import numa_topology_filter  # noqa: E402

CONF = nova.conf.CONF
CELL = 'c1c1c1c1-0000-4000-8000-000000000001'


def host_state(number, text, given):
    state = host_manager.HostState(f'h{number}', f'h{number}', CELL)
    state.numa_topology = objects.NUMATopology.obj_from_db_obj(text)
    state.pci_stats = pci_stats.PciDeviceStats(objects.NUMATopology(cells=[]))
    state.cpu_allocation_ratio = given['cpu_allocation_ratio']
    state.ram_allocation_ratio = given['ram_allocation_ratio']
    return state


def request_spec(asked):
    return objects.RequestSpec(
        flavor=objects.Flavor(vcpus=4, memory_mb=4096, extra_specs={}),
        image=objects.ImageMeta.from_dict({'properties': {}}),
        numa_topology=objects.InstanceNUMATopology.obj_from_primitive(asked),
        pci_requests=None,
        instance_uuid='b0000000-0000-4000-8000-000000000001',
        requested_resources=[],
    )


def main():
    given = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    texts = given['topologies']
    states = [host_state(number, text, given) for number, text in enumerate(texts)]
    spec = request_spec(given['request'])
    numa = numa_topology_filter.NUMATopologyFilter()

    def run():
        for state in states:
            state.allocation_candidates = [given['candidate']]
            state.limits = {}
        start = time.process_time()
        passed = [state for state in states if numa.host_passes(state, spec)]
        took = (time.process_time() - start) * 1000
        return took, len(passed)

    first, _ = run()
    rounds = max(1, min(5, int(10000 / first)))
    print(json.dumps(statistics.median(run()[0] for _ in range(rounds))))  # noqa: T201


if __name__ == '__main__':
    main()
