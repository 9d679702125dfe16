# SPDX-License-Identifier: Apache-2.0
"""Fit of the NUMA cells and PCI devices of a guest to a host.

Values in, values out. ``topology`` and ``pci`` are the values; ``parse`` reads them
from the columns of a host, ``requirements`` from a request. ``precheck`` rejects hosts
by columns; ``cache`` keeps the fits of all others. ``search`` puts guest cells onto
host cells by the rules of ``numa``; ``pci_allocation`` allocates the devices. ``claim``
has what is left on the picked host, ``explain`` the reason for a refusal.
"""
