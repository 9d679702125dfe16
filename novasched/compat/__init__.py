# SPDX-License-Identifier: Apache-2.0
"""Support of plugins, drivers, options and module names of older novas."""
