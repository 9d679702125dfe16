# SPDX-License-Identifier: Apache-2.0
"""The last look at a server group, when its member is already on a host.

Two schedulers may have put two members on one host at the same moment, and an
alternate was chosen long before it is used. Nova: compute/manager.py,
_validate_instance_group_policy.
"""

from __future__ import annotations

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched_lab.store.stores import CellServers


class PolicyViolated(errors.RequestError):
    """The host is no place for this member; that is no failure of the host."""


def check(servers: CellServers, host: str, uuid: str, request: RequestSpec) -> None:
    """Raise PolicyViolated if an instance must not be on a host.

    Only members in the cell of the host are seen.
    """
    group = request.instance_group if 'instance_group' in request else None
    if group is None or group.policy not in ('affinity', 'anti-affinity'):
        return
    members = list(group.members or ()) if 'members' in group else []
    others = [
        each.host
        for each in servers.instances([one for one in members if one != uuid])
        if each.host is not None
    ]
    here = others.count(host)
    if group.policy == 'affinity' and len(others) > here:
        raise PolicyViolated(
            f'Affinity instance group policy was violated: members run on other hosts '
            f'than {host}'
        )
    if group.policy == 'anti-affinity':
        most = group.rules.get('max_server_per_host', 1)
        if here >= most:
            raise PolicyViolated(
                'Anti-affinity instance group policy was violated: '
                f'{here} members run on {host} already'
            )
