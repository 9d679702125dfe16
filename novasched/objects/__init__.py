# SPDX-License-Identifier: Apache-2.0
"""The objects that travel between nova's services; importing it knows them all."""

from novasched.objects import (
    aggregate,
    cell_mapping,
    compute_node,
    flavor,
    image_meta,
    instance,
    instance_group,
    legacy,
    network,
    numa,
    pci,
    request_spec,
    security_group,
    selection,
    service,
)

__all__ = [
    'aggregate',
    'cell_mapping',
    'compute_node',
    'flavor',
    'image_meta',
    'instance',
    'instance_group',
    'legacy',
    'network',
    'numa',
    'pci',
    'request_spec',
    'security_group',
    'selection',
    'service',
]
