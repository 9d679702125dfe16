# SPDX-License-Identifier: Apache-2.0
"""What the databases keep of instances while they are made, moved and deleted."""
