# SPDX-License-Identifier: Apache-2.0
"""The wire: requests in, replies, notifications and faults out."""
