# SPDX-License-Identifier: Apache-2.0
"""Contrast of fields and charts, as WCAG 2 counts it: axe looks at texts alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.browser.browser import Browser

GROUND_AND_INK = """
const body = getComputedStyle(document.body);
const clear = 'rgba(0, 0, 0, 0)';
const root = getComputedStyle(document.documentElement).backgroundColor;
return [body.backgroundColor === clear ? root : body.backgroundColor, body.color];
"""
EDGES = """
const clear = colour => colour === 'none' ||
  (colour.startsWith('rgba(') && !colour.endsWith(', 1)'));
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!clear(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const drawn = shape => {
  const style = getComputedStyle(shape);
  const named = style.fill.match(/^url\\("?#(.+?)"?\\)/);
  if (!clear(style.stroke)) return style.stroke;
  if (!named) return style.fill;
  return drawn(document.getElementById(named[1]).firstElementChild);
};
const found = [];
for (const field of document.querySelectorAll('input, select, textarea, button'))
  if (field.type !== 'hidden' && field.checkVisibility())
    found.push(['field', behind(field.parentElement),
                getComputedStyle(field).borderTopColor]);
for (const square of document.querySelectorAll(
    'main .squares rect, main .swatch rect, main .cpu'))
  found.push(['square', behind(square.closest('svg')), drawn(square)]);
for (const block of document.querySelectorAll('main .columns rect:not(.hit)'))
  found.push(['column', behind(block.closest('svg')), drawn(block)]);
for (const part of document.querySelectorAll('main .stack rect'))
  found.push(['stage', behind(part.closest('svg')), getComputedStyle(part).fill]);
for (const bar of document.querySelectorAll('main .track .fill'))
  found.push(['bar', drawn(bar.parentElement.querySelector('.ground')), drawn(bar)]);
return found;
"""
"""What is seen by its edge or its fill alone: what it is, what is behind it, and the
colour of the edge, or of the fill where there is none."""
LEAST = 3.0
"""The least contrast of what is no text."""


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


def faint(browser: Browser) -> list[str]:
    """Return what on a page stands out too little from what is behind it."""
    found = {
        f'{what} {colour} on {below}: {ratio(below, colour):.2f}'
        for what, below, colour in browser.run(EDGES)
        if ratio(below, colour) < LEAST
    }
    return sorted(found)
