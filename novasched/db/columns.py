# SPDX-License-Identifier: Apache-2.0
"""The columns that nova's tables are made of."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

MediumText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
Address = sa.String(39).with_variant(postgresql.INET(), 'postgresql')


def stamps() -> tuple[sa.Column[object], ...]:
    """When a row was made and changed."""
    return (sa.Column('created_at', sa.DateTime), sa.Column('updated_at', sa.DateTime))


def soft_stamps() -> tuple[sa.Column[object], ...]:
    """The same, and when it was deleted."""
    return (*stamps(), sa.Column('deleted_at', sa.DateTime))


def identity() -> sa.Column[int]:
    """The key of every table."""
    return sa.Column('id', sa.Integer, primary_key=True, nullable=False)


def string(name: str, nullable: bool = True) -> sa.Column[str]:
    """Text of 255 characters."""
    return sa.Column(name, sa.String(255), nullable=nullable)


def uuid(name: str = 'uuid', nullable: bool = False) -> sa.Column[str]:
    """Text of 36 characters."""
    return sa.Column(name, sa.String(36), nullable=nullable)


def amount(name: str, nullable: bool = True) -> sa.Column[int]:
    """A whole number."""
    return sa.Column(name, sa.Integer, nullable=nullable)


def flag(name: str) -> sa.Column[bool]:
    """True, false or null."""
    return sa.Column(name, sa.Boolean)


def table(name: str, metadata: sa.MetaData, *parts: sa.schema.SchemaItem) -> sa.Table:
    """A table, transactional on MySQL too."""
    return sa.Table(name, metadata, *parts, mysql_engine='InnoDB')
