# SPDX-License-Identifier: Apache-2.0
"""How the nodes and devices of a guest fit onto those of a host.

Values in, values out: topology.py and guests.py say what a host has and a guest
wants, pools.py which devices are free, search.py puts one onto the other,
usage.py says what is left.
"""
