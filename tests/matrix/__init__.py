# SPDX-License-Identifier: Apache-2.0
"""Services of each release of nova, with novasched as their only scheduler."""
