# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: hypothesis judges results, not the machine's speed."""

from __future__ import annotations

import os

import hypothesis

# First of all: it chooses threads, and the libraries keep to that.
import novasched  # noqa: F401

hypothesis.settings.register_profile('novasched', deadline=None, print_blob=True)
# A machine that judges a change gets the same examples every time.
hypothesis.settings.register_profile(
    'ci', hypothesis.settings.get_profile('novasched'), derandomize=True
)
hypothesis.settings.load_profile('ci' if os.environ.get('CI') else 'novasched')


def pytest_addoption(parser):
    parser.addoption(
        '--regold', action='store_true', help='accept our decisions as golden ones'
    )
