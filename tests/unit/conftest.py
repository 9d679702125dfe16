# SPDX-License-Identifier: Apache-2.0
"""Unit tests hear what their own threads say."""

from tests.own_logs import caplog, threads_of_others

__all__ = ['caplog', 'threads_of_others']
