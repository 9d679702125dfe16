# SPDX-License-Identifier: Apache-2.0
"""The decision log: a record of every request, kept on the machine that served it."""
