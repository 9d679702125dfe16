# SPDX-License-Identifier: Apache-2.0
"""URLs are shown as nova-manage shows them, and never with a password."""

from urllib.parse import urlsplit

import pytest

from novasched.manage.cell_v2 import check_transport, concealed
from novasched.rpc.transport import HOW_TO_WRITE


@pytest.mark.parametrize(
    ('url', 'shown'),
    [
        ('mysql+pymysql://n:p%40s:x@db:1/c?charset=utf8', None),
        ('rabbit://u:p@h/1', 'rabbit://u:****@h/1'),
        ('rabbit://u1:p1@h1:1,u2:p2@h2:2/v', 'rabbit://u1:****@h2:2/v'),
        ('rabbit://u:p@ss@h/1', 'rabbit://u:****@h/1'),
        ('rabbit://:pw@h/1', 'rabbit://:****@h/1'),
        ('mysql://user:@db:1/n', 'mysql://user:****@db:1/n'),
        ('mysql://user@db/n', 'mysql://user@db/n'),
        ('mysql://[::1]:1/n', 'mysql://[::1]:1/n'),
        ('rabbit://u:p@h/1?', 'rabbit://u:****@h/1'),
        ('none:///', 'none:/'),
        # Pythons differ, and with them nova-manage.
        ('sqlite:////tmp/c1', urlsplit('sqlite:////tmp/c1').geturl()),
        ('{bogus}/nova', '{bogus}/nova'),
        ('mysql://u:secret@[::1/n', 'mysql://u:****@[::1/n'),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    expected = shown or 'mysql+pymysql://n:****@db:1/c?charset=utf8'
    assert concealed(url) == expected


@pytest.mark.parametrize(
    ('url', 'problem'),
    [
        ('rabbit://u:p@h/1', None),
        ('kafka://{username}/x', None),
        ('nonsense', 'No scheme specified'),
        ('rabbit://u:S3/cret@h/', HOW_TO_WRITE),
    ],
)
def test_a_transport_url_makes_sense(url, problem):
    assert check_transport(url) == problem
