# SPDX-License-Identifier: Apache-2.0
"""The tests of the lab start as those of novasched do."""

from __future__ import annotations

from tests.conftest import state_directory

__all__ = ['state_directory']
