# SPDX-License-Identifier: Apache-2.0
"""Commands of `upgrade check --shadow` are run here, and their accounts used."""

import sqlalchemy as sa

PASSWORD = 'reader-secret'


def run_command(command, rabbitmq, mariadb):
    """Run a command that mends: SQL, or one of rabbitmqctl; accounts are made anew."""
    if command.startswith('rabbitmqctl add_user'):
        rabbitmq.add_user(command.split()[2], PASSWORD)
    elif command.startswith('rabbitmqctl'):
        rabbitmq.set_permissions(command)
    else:
        command = command.replace('CREATE USER', 'CREATE OR REPLACE USER')
        mariadb.execute(command.replace("'...'", f"'{PASSWORD}'"))


def at_database(url, account):
    """The URL of a database, for an account."""
    own = sa.make_url(url).set(username=account, password=PASSWORD)
    return own.render_as_string(hide_password=False)


def at_broker(url, account):
    """The transport URL, for an account."""
    return f'rabbit://{account}:{PASSWORD}@{url.rpartition("@")[2]}'
