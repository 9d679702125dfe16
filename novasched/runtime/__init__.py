# SPDX-License-Identifier: Apache-2.0
"""Threads, locks and clocks: nothing here knows of schedulers."""
