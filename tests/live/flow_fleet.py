# SPDX-License-Identifier: Apache-2.0
"""A fleet whose hosts differ: plain ones, some with NUMA cells, some with devices."""

FLEET = """
[[hosts]]
name = "plain-{0}-{{}}"
cell = "{0}"
count = {1}
vcpus = 16
memory_mb = 32768
disk_gb = 200

[[hosts]]
name = "numa-{0}-{{}}"
cell = "{0}"
count = 2
vcpus = 16
memory_mb = 32768
disk_gb = 200
numa_nodes = 2
dedicated_cpus = "0-3,8-11"

[[hosts]]
name = "pci-{0}-{{}}"
cell = "{0}"
count = 2
vcpus = 16
memory_mb = 32768
disk_gb = 200
numa_nodes = 2

[[hosts.devices]]
vendor_id = "8086"
product_id = "1572"
count = 4
numa_node = 1
"""


def fleet(cells, plain):
    """Return the hosts of cells as a file of the lab; ``plain`` ones in each."""
    return ''.join(FLEET.format(cell, plain) for cell in cells)


def names(cells, plain):
    """Return the names of the hosts of such a fleet."""
    return [
        f'{kind}-{cell}-{number}'
        for cell in cells
        for kind, count in (('plain', plain), ('numa', 2), ('pci', 2))
        for number in range(1, count + 1)
    ]
