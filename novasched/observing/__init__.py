# SPDX-License-Identifier: Apache-2.0
"""What operators see of a running service: its health, and its metrics.

Workers keep both for themselves; one more process answers for all workers of the
host, at the addresses that the options name. Without any, nothing of this is there.
"""
