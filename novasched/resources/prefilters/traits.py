# SPDX-License-Identifier: Apache-2.0
"""Traits whose names are put together from what a request says."""

from __future__ import annotations

from collections.abc import Iterable

import os_traits  # type: ignore[import-untyped]

from novasched.resources.prefilters.requirements import Requirements

_KNOWN = frozenset(os_traits.get_traits())


def is_known(trait: str) -> bool:
    """Tell whether placement can know the trait: custom ones are not meant here."""
    return trait in _KNOWN


def unknown(trait: str) -> str:
    """Return what the operator is told of a trait that nobody knows."""
    return f"Computed trait name '{trait}' is not valid; is os-traits up to date?"


def required(name: str, traits: Iterable[str], words: str) -> Requirements:
    """Return that the root provider must have the traits, with a note on each.

    ``name`` is the prefilter and ``words`` are what nova puts before the trait.
    """
    traits = list(traits)
    return Requirements(
        root_required=frozenset(traits),
        notes=tuple(f'{name} {words} {trait}' for trait in traits),
    )
