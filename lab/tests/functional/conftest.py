# SPDX-License-Identifier: Apache-2.0
"""The clouds of the tests of novasched."""

from __future__ import annotations

from tests.functional.conftest import _copies, _fresh_placement, cloud, module_cloud

__all__ = ['_copies', '_fresh_placement', 'cloud', 'module_cloud']
