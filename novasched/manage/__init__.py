# SPDX-License-Identifier: Apache-2.0
"""Commands on the databases; they run on threads, as novasched.rpc chooses."""

import novasched.rpc  # noqa: F401
