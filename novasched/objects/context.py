# SPDX-License-Identifier: Apache-2.0
"""Request context: user, project, roles and ids of a request.

The wire form is the dict of ``to_dict``; the message layer spreads it over
``_context_*`` keys.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Self

from oslo_context import context as oslo_context

from novasched.runtime.clock import SYSTEM_CLOCK

READ_DELETED = ('no', 'yes', 'only')
CATALOG_TYPES = frozenset(
    {
        'accelerator',
        'block-storage',
        'image',
        'key-manager',
        'network',
        'placement',
        'sharev2',
        'volumev3',
    }
)
_DEFAULTS = {'is_admin_project': True, 'read_only': False, 'show_deleted': False}
_OWN_KEYS = (
    'read_deleted',
    'remote_address',
    'timestamp',
    'quota_class',
    'service_catalog',
)
_STAMP = '%Y-%m-%dT%H:%M:%S.%f'


class RequestContext(oslo_context.RequestContext):
    """A request context with nova's wire keys.

    ``timestamp`` is UTC without a zone. A new context becomes the one that log
    lines of this thread show, unless ``overwrite`` is false. Raises ValueError
    for a ``read_deleted`` or ``timestamp`` that is invalid.
    """

    def __init__(
        self,
        user_id: str | None = None,
        project_id: str | None = None,
        is_admin: bool | None = False,
        *,
        roles: Sequence[str] | None = None,
        read_deleted: str | None = 'no',
        remote_address: str | None = None,
        timestamp: datetime.datetime | str | None = None,
        quota_class: str | None = None,
        service_catalog: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.read_deleted = read_deleted or 'no'
        self.timestamp = _parse_stamp(timestamp)
        self.remote_address = remote_address
        self.quota_class = quota_class
        self.service_catalog = [
            service
            for service in service_catalog or ()
            if service.get('type') in CATALOG_TYPES
        ]
        kwargs.update(user_id=user_id, project_id=project_id)
        super().__init__(is_admin=is_admin, roles=list(roles or ()), **kwargs)

    @property
    def read_deleted(self) -> str:
        """Whether deleted rows are seen: ``no``, ``yes`` or ``only``."""
        return self._read_deleted

    @read_deleted.setter
    def read_deleted(self, value: str) -> None:
        if value not in READ_DELETED:
            raise ValueError(f'read_deleted can only be one of {READ_DELETED}: {value}')
        self._read_deleted = value

    def check_is_admin(self) -> bool:
        """Return whether the roles make an admin, for a sender that did not say."""
        return any(role.lower() == 'admin' for role in self.roles)

    @property
    def global_id(self) -> str:
        """The request id that other services are given."""
        return str(self.global_request_id or self.request_id)

    def elevated(self, read_deleted: str | None = None) -> Self:
        """Return a copy with admin rights, for the same user and request."""
        copy = self.__copy__()
        copy.read_deleted = read_deleted or self.read_deleted
        copy.is_admin = True
        if not copy.check_is_admin():
            copy.roles.append('admin')
        return copy

    def redacted_copy(self, **kwargs: Any) -> Self:
        """Return a copy without token, address and catalog, for notifications.

        oslo.messaging calls it; a context without it would be sent empty.
        """
        return super().redacted_copy(overwrite=False, **kwargs)

    def __copy__(self) -> Self:
        copy = type(self).__new__(type(self))
        vars(copy).update(vars(self))
        copy.roles = list(self.roles)
        copy.service_catalog = list(self.service_catalog)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; it shares no list with the context."""
        return {
            **super().to_dict(),
            'roles': list(self.roles),
            'user_id': self.user_id,
            'read_deleted': self.read_deleted,
            'remote_address': self.remote_address,
            'timestamp': self.timestamp.strftime(_STAMP),
            'quota_class': self.quota_class,
            'user_name': self.user_name,
            'service_catalog': list(self.service_catalog),
            'project_name': self.project_name,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **kwargs: Any) -> Self:
        """Build a context from its wire form; missing and unknown keys are fine."""
        for key, default in _DEFAULTS.items():
            value = values.get(key)
            kwargs.setdefault(key, default if value is None else value)
        return super().from_dict(
            dict(values),
            user_id=kwargs.pop('user_id', _first(values, 'user_id', 'user')),
            project_id=kwargs.pop(
                'project_id', _first(values, 'project_id', 'project')
            ),
            **{key: values.get(key) for key in _OWN_KEYS if key not in kwargs},
            **kwargs,
        )


def admin() -> RequestContext:
    """Return a context of our own, with admin rights and no user.

    The context that log lines of this thread show stays what it is.
    """
    return RequestContext(is_admin=True, overwrite=False)


def _first(values: Mapping[str, Any], key: str, other: str) -> str | None:
    value = values.get(key)
    return values.get(other) if value is None else value


def _parse_stamp(stamp: datetime.datetime | str | None) -> datetime.datetime:
    if stamp is None:
        stamp = SYSTEM_CLOCK.utcnow().replace(tzinfo=datetime.UTC)
    elif isinstance(stamp, str):
        stamp = datetime.datetime.fromisoformat(stamp)
    if stamp.tzinfo is not None:
        stamp = stamp.astimezone(datetime.UTC).replace(tzinfo=None)
    return stamp
