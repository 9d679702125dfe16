# SPDX-License-Identifier: Apache-2.0
"""The tables of the API database that flavors are in, as nova has them."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.columns import amount, flag, identity, stamps, string, table
from novasched.db.tables import API

__all__ = ['API', 'flavor_extra_specs', 'flavors']

flavors = table(
    'flavors',
    API,
    *stamps(),
    string('name', nullable=False),
    identity(),
    amount('memory_mb', nullable=False),
    amount('vcpus', nullable=False),
    amount('swap', nullable=False),
    amount('vcpu_weight'),
    string('flavorid', nullable=False),
    sa.Column('rxtx_factor', sa.Float),
    amount('root_gb'),
    amount('ephemeral_gb'),
    flag('disabled'),
    flag('is_public'),
    sa.Column('description', sa.Text),
    sa.UniqueConstraint('flavorid', name='uniq_flavors0flavorid'),
    sa.UniqueConstraint('name', name='uniq_flavors0name'),
)

flavor_extra_specs = table(
    'flavor_extra_specs',
    API,
    *stamps(),
    identity(),
    sa.Column('flavor_id', sa.ForeignKey('flavors.id'), nullable=False),
    string('key', nullable=False),
    string('value'),
    sa.UniqueConstraint(
        'flavor_id', 'key', name='uniq_flavor_extra_specs0flavor_id0key'
    ),
    sa.Index('flavor_extra_specs_flavor_id_key_idx', 'flavor_id', 'key'),
)
