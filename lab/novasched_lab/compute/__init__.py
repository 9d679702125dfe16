# SPDX-License-Identifier: Apache-2.0
"""Many hosts with simulated hypervisors, in one process.

fleet.py says which hosts there are, book.py what each has left, rules.py which of
them misbehaves; builds.py and moves.py do what a conductor asks for, audit.py mends
what a killed process has left.
"""
