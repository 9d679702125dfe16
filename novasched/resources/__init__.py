# SPDX-License-Identifier: Apache-2.0
"""From a request to the question that placement is asked. Pure.

The manager runs the prefilters, looks up the node that the request names, and
builds the query.
"""

from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.resources.query import Group, Query
from novasched.resources.request import build_query
from novasched.resources.targets import Target, not_found, target_of

__all__ = [
    'Facts',
    'Group',
    'Query',
    'Requirements',
    'Target',
    'build_query',
    'not_found',
    'target_of',
]
