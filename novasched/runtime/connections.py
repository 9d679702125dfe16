# SPDX-License-Identifier: Apache-2.0
"""Failed connections: TLS files that cannot be used, and short words for exceptions of
requests, keystoneauth1, PyMySQL, psycopg2 and amqp."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator

from novasched import errors

READABLE = 'Name a file in PEM form that this user can read'


def check_authorities(
    option: str, path: str | None, *, or_directory: bool = False
) -> None:
    """Load the certificates of authorities as a connection will.

    ``or_directory``: the option may name a directory of them.
    Raises errors.OptionError.
    """
    if not path or (or_directory and os.path.isdir(path)):
        return
    _check_readable(option, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as problem:
        raise errors.OptionError(
            option, f'{path}: no certificate can be read from it', READABLE
        ) from problem


def check_certificate(
    option: str, path: str | None, key_option: str, key: str | None
) -> None:
    """Load a certificate of ours and its private key as a connection will.

    Without ``key`` the file of the certificate holds it. Raises errors.OptionError.
    """
    if not path:
        return
    check_authorities(option, path)
    if key:
        _check_readable(key_option, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(path, key or None, password='')
    except (ssl.SSLError, ValueError) as problem:
        raise errors.OptionError(
            key_option,
            f'{key or path}: no private key of the certificate {path} can be read '
            'from it',
            'Name the key of that certificate, in PEM form and not encrypted',
        ) from problem


def _check_readable(option: str, path: str) -> None:
    try:
        with open(path, 'rb') as file:
            file.read(1)
    except OSError as problem:
        raise errors.OptionError(
            option, f'{path}: {reason(problem)}', READABLE
        ) from problem


PHRASES = (
    (r"Access denied for user '([^']*)'", 'access denied for user {}'),
    (r'authentication failed for user "([^"]*)"', 'access denied for user {}'),
    (r'role "([^"]*)" does not exist', 'access denied for user {}'),
    (r'no pg_hba\.conf entry for .*user "([^"]*)"', 'access denied for user {}'),
    (r'ACCESS_REFUSED', 'access denied'),
    (r"Unknown database '([^']*)'", 'unknown database {}'),
    (r'database "([^"]*)" does not exist', 'unknown database {}'),
    (r'NOT_ALLOWED - vhost (\S+) not found', 'unknown virtual host {}'),
    (r'Name or service not known|[Nn]ame resolution', 'its name does not resolve'),
    (r'Connection refused', 'connection refused'),
    (r'[Tt]imed out|timeout expired', 'no answer in time'),
    (r'server closed the connection', 'connection closed by the server'),
)
"""Patterns of what libraries and servers say, and the words for them."""
_PHRASES = tuple((re.compile(pattern), words) for pattern, words in PHRASES)


def reason(problem: BaseException) -> str:
    """Return why a connection failed, in a few words.

    Words for TLS, the system and PHRASES come first, else the first line of the text.
    """
    for each in causes(problem):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f'its certificate cannot be verified: {each.verify_message}'
        if isinstance(each, ssl.SSLError) and each.reason:
            return f'TLS fails: {each.reason.replace("_", " ").lower()}'
        if isinstance(each, TimeoutError):
            return 'no answer in time'
        if isinstance(each, socket.gaierror):
            return 'its name does not resolve'
        if isinstance(each, OSError) and each.strerror:
            return each.strerror[:1].lower() + each.strerror[1:]
    said = str(problem)
    return phrase(said) or (said.splitlines() or [type(problem).__name__])[0]


def phrase(said: str) -> str | None:
    """Return the words for what a library or a server says, if there are some."""
    for pattern, words in _PHRASES:
        if found := pattern.search(said):
            return words.format(*found.groups())
    return None


def causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was made of, each once."""
    seen: list[BaseException] = []
    waiting: list[object] = [problem]
    while waiting:
        each = waiting.pop(0)
        if not isinstance(each, BaseException) or each in seen:
            continue
        seen.append(each)
        yield each
        waiting += [getattr(each, 'reason', None), *each.args[:1]]
        waiting += [each.__cause__, each.__context__]
