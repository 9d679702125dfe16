# SPDX-License-Identifier: Apache-2.0
"""Questions about decisions: explain, plan, why-not, capacity, host."""
