# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of a running service, for operators.

Workers keep both for themselves; one more process answers for all workers of the
host, at the addresses that the options name. Without any, nothing is counted.
"""
