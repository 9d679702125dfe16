# SPDX-License-Identifier: Apache-2.0
"""What keeps connections from being made: TLS files that options name and that cannot
be used, and the words for what failed on the way."""

from __future__ import annotations

import os
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


def reason(problem: BaseException) -> str:
    """Return why a connection failed: the words of TLS or of the system where libraries
    wrapped them in their own, else the first line of the text."""
    for each in causes(problem):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f'its certificate cannot be verified: {each.verify_message}'
        if isinstance(each, ssl.SSLError) and each.reason:
            return f'TLS fails: {each.reason.replace("_", " ").lower()}'
        if isinstance(each, TimeoutError):
            return 'no answer in time'
        if isinstance(each, OSError) and each.strerror:
            return each.strerror[:1].lower() + each.strerror[1:]
    return (str(problem).splitlines() or [type(problem).__name__])[0]


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
