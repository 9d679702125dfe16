# SPDX-License-Identifier: Apache-2.0
"""The objects that travel between nova's services; importing it knows them all."""

from novasched.objects import instance, legacy, selection

__all__ = ['instance', 'legacy', 'selection']
