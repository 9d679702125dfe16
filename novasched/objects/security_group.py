# SPDX-License-Identifier: Apache-2.0
"""Security groups; they only pass through."""

from __future__ import annotations

from typing import ClassVar

from novasched.objects import fields
from novasched.objects.base import (
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)


@NovaObjectRegistry.register
class SecurityGroup(NovaPersistentObject):
    """A security group; usually only its uuid is set, or only its name."""

    VERSION = '1.2'
    SINCE: ClassVar = {'uuid': '1.2'}

    id: int = fields.integer()
    name: str = fields.string()
    description: str = fields.string()
    user_id: str = fields.string()
    project_id: str = fields.string()
    uuid: str = fields.uuid()


@NovaObjectRegistry.register
class SecurityGroupList(NovaObjectList[SecurityGroup]):
    VERSION = '1.1'

    objects: list[SecurityGroup] = fields.objects_of('SecurityGroup')
