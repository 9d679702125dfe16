# SPDX-License-Identifier: Apache-2.0
"""The tests of the lab start as those of novasched do."""

from tests.conftest import logging_as_before, state_directory

__all__ = ['logging_as_before', 'state_directory']
