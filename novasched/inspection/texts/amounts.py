# SPDX-License-Identifier: Apache-2.0
"""Amounts of resource classes in their units, rates and durations in words."""

from __future__ import annotations

import re

KIB_OF_MIB, GIB_OF_MB, TIB_OF_GB = 1024, 1024, 1024
UNITS = ('MEMORY_MB', 'DISK_GB')
"""Resource classes whose amounts have a unit."""


def duration(ms: float | None) -> str:
    """Return a duration in words."""
    if ms is None:
        return ''
    if ms >= 1000:
        return f'{ms / 1000:.{1 if ms < 10_000 else 0}f} s'
    return f'{ms:.0f} ms' if ms >= 1 or not ms else f'{ms:.1f} ms'


def number(value: float) -> str:
    """Return a rate or mean with as many digits as say something."""
    if value >= 10:
        return f'{value:.0f}'
    if 0 < value < 0.01:
        return '<0.01'
    return f'{value:.1f}' if value >= 1 else f'{value:.2g}'


def amount(resource: str, number: float) -> str:
    """Return an amount of a resource class, with its unit."""
    if resource == 'MEMORY_MB':
        return _scaled(number, GIB_OF_MB, 'MiB', 'GiB')
    if resource == 'DISK_GB':
        return _scaled(number, TIB_OF_GB, 'GiB', 'TiB')
    return f'{number:,.10g}'


def _scaled(number: float, times: int, small: str, large: str) -> str:
    if abs(number) < times:
        return f'{number:g} {small}'
    scaled = number / times
    digits = 0 if scaled >= 100 or scaled == int(scaled) else 1
    return f'{scaled:.{digits}f} {large}'


def part(resource: str, number: float, whole: float) -> str:
    """Return a part of an amount, in the unit of the whole: 0.5 of 231 TiB."""
    total, unit = _split(amount(resource, whole))
    some, other = _split(amount(resource, number))
    if number and other != unit:
        some = f'{number / (GIB_OF_MB if resource == "MEMORY_MB" else TIB_OF_GB):.1f}'
        some = '<0.1' if some == '0.0' else some
    return f'{some} of {total} {unit}'.rstrip()


def percent(number: float, whole: float) -> str:
    """Return a part of a whole in percent, as a number; '' of nothing."""
    return f'{100 * number / whole:.1f}' if whole else ''


def _split(text: str) -> tuple[str, str]:
    number, _, unit = text.partition(' ')
    return number, unit


def in_units(resource: str, text: str) -> str:
    """Return a text on amounts of a resource class, each with its unit."""
    if resource not in UNITS:
        return text
    return re.sub(r'\b\d+\b', lambda found: amount(resource, int(found[0])), text)


def explained_amounts(text: str) -> str:
    """Return a text in which each amount of memory or disk is also said in its unit:
    262144 free MEMORY_MB (256 GiB)."""

    def said(found: re.Match[str]) -> str:
        return f'{found[0]} ({amount(found[2], int(found[1]))})'

    return re.sub(rf'\b(\d+) free ({"|".join(UNITS)})\b', said, text)


def resource(name: str) -> str:
    """Return the name of a resource class without its unit."""
    return {'MEMORY_MB': 'Memory', 'DISK_GB': 'Disk'}.get(name, name)
