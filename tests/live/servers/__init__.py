# SPDX-License-Identifier: Apache-2.0
"""Private servers: free ports, directories of their own, stopped by pid."""
