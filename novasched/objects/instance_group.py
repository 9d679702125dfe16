# SPDX-License-Identifier: Apache-2.0
"""Server groups: instances to be kept together or apart."""

from __future__ import annotations

from typing import Any, ClassVar

from oslo_versionedobjects import base as ovo

from novasched import errors
from novasched.objects import fields
from novasched.objects.base import NovaObjectRegistry, NovaPersistentObject


@NovaObjectRegistry.register
class InstanceGroup(ovo.VersionedObjectDictCompat, NovaPersistentObject):
    """A server group. ``hosts`` are where its members run now.

    Of ``policy`` and ``policies``, which says the same in a list of one, the
    one that is set speaks for the other.
    """

    VERSION = '1.11'
    UNSET_DEFAULTS: ClassVar = {'_rules': dict}

    id: int = fields.integer()
    user_id: str | None = fields.string(nullable=True)
    project_id: str | None = fields.string(nullable=True)
    uuid: str = fields.uuid()
    name: str | None = fields.string(nullable=True)
    policies: list[str] | None = fields.strings(nullable=True, read_only=True)
    members: list[str] | None = fields.strings(nullable=True)
    hosts: list[str] | None = fields.strings(nullable=True)
    policy: str | None = fields.string(nullable=True)
    _rules: dict[str, str] = fields.string_dict()

    @property
    def rules(self) -> dict[str, int]:
        """The limits of the policy, such as max_server_per_host.

        Raises errors.InvalidRequest for a limit that is no number.
        """
        try:
            return {name: int(value) for name, value in self._rules.items()}
        except ValueError as error:
            raise errors.InvalidRequest(f'InstanceGroup._rules: {error}') from error

    def obj_load_attr(self, attrname: str) -> None:
        """Give ``policy`` and ``policies`` from each other; else as any object.

        Where neither is set, both are None.
        """
        if attrname == 'policies':
            policy = self.if_set('policy')
            self._give(attrname, None if policy is None else [policy])
        elif attrname == 'policy':
            policies = self.if_set('policies')
            self._give(attrname, policies[0] if policies else None)
        else:
            super().obj_load_attr(attrname)

    def _give(self, name: str, value: Any) -> None:
        self.__dict__[f'_obj_{name}'] = value
