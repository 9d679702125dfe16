# SPDX-License-Identifier: Apache-2.0
"""Request to allocation candidates query. Pure.

The manager runs the prefilters, looks up the node that the request names, and
builds the query.
"""

from novasched.resources.query import Group, Query
from novasched.resources.request import Target, build_query, not_found, target_of
from novasched.resources.requirements import PrefilterContext, Requirements

__all__ = [
    'Group',
    'PrefilterContext',
    'Query',
    'Requirements',
    'Target',
    'build_query',
    'not_found',
    'target_of',
]
