# SPDX-License-Identifier: Apache-2.0
"""The clouds of the tests of novasched."""

from novasched_lab.commands import command
from tests.functional.conftest import _copies, _fresh_placement, cloud, module_cloud

__all__ = ['_copies', '_fresh_placement', 'cloud', 'module_cloud']

# So often commands look whether a server is there; half a second, as it comes.
command.POLL_S = 0.02
