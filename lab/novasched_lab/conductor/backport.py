# SPDX-License-Identifier: Apache-2.0
"""Older forms of objects, for services that do not know the newest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novasched import errors
from novasched.objects import base

Primitive = dict[str, Any]


def backported(primitive: Primitive, versions: Mapping[str, str]) -> Primitive:
    """Return an object in the versions that the asker knows, by name of object.

    Raises errors.InvalidRequest for nonsense, and errors.UnsupportedObject for an
    object that we do not know either. Nova: conductor/manager.py,
    object_backport_versions.
    """
    if not isinstance(primitive, dict) or base.NAME not in primitive:
        raise errors.InvalidRequest('objinst is no object')
    target = versions.get(primitive[base.NAME])
    if target is None:
        raise errors.InvalidRequest(
            f'no version of {primitive[base.NAME]} is asked for'
        )
    made = base.parse(primitive, accept_newer=True)
    # What was read says the version that it came in, which is no limit here.
    made.VERSION = type(made).VERSION
    found: Primitive = made.obj_to_primitive(
        target_version=target, version_manifest=dict(versions)
    )
    return found
