# SPDX-License-Identifier: Apache-2.0
"""Policy lab: other weights, filters and hosts, tried on the requests of a history."""
