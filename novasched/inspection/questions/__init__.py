# SPDX-License-Identifier: Apache-2.0
"""Questions about decisions and hosts: what is asked, and the answers."""
