# SPDX-License-Identifier: Apache-2.0
"""Commands for people who drive a cloud by hand.

All that reads configurations and databases is imported only when a command runs.
"""
