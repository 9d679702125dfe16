# SPDX-License-Identifier: Apache-2.0
"""The commands of ``novasched``: arguments in, answers out as text, table or JSON."""
