# SPDX-License-Identifier: Apache-2.0
"""The daemons novasched-conductor and novasched-compute."""

import novasched.cmd  # noqa: F401  first of all: how a program ends
