# SPDX-License-Identifier: Apache-2.0
"""Contrast of colours, as WCAG 2 counts it, and where axe does not look."""

from __future__ import annotations

import re
from collections.abc import Sequence

GROUND_AND_INK = """
const body = getComputedStyle(document.body);
const clear = 'rgba(0, 0, 0, 0)';
const root = getComputedStyle(document.documentElement).backgroundColor;
return [body.backgroundColor === clear ? root : body.backgroundColor, body.color];
"""
IN_CHARTS = """
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!colour.startsWith('rgba(') || colour.endsWith(', 1)')) return colour;
  }
  return 'rgb(255, 255, 255)';
};
return [...document.querySelectorAll('main svg text')].map(text =>
  [text.textContent, behind(text), getComputedStyle(text).fill]);
"""
"""Texts of charts, what is behind them and their colour."""


def channels(colour: str) -> Sequence[float]:
    """Return red, green and blue of ``rgb(...)`` or ``color(srgb ...)``, 0 to 1."""
    found = [float(each) for each in re.findall(r'[\d.]+', colour)][:3]
    return found if colour.startswith('color') else [each / 255 for each in found]


def luminance(colour: str) -> float:
    """Return how light a colour is, from 0 to 1."""
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in channels(colour)
    ]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def ratio(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)
