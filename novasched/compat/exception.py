# SPDX-License-Identifier: Apache-2.0
"""Nova's exceptions, which plugins raise and derive theirs from."""

from __future__ import annotations

from typing import Any

from novasched import errors

MODULE = 'nova.exception'
"""Where callers look for these; it goes over the wire with them."""


class NovaException(Exception):
    """Base of the errors of nova, and of those that plugins have of their own.

    A subclass has a text ``msg_fmt`` for the keywords that it is made with.
    """

    __module__ = MODULE
    msg_fmt = 'An unknown exception occurred.'
    code = 500

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = {'code': self.code, **kwargs}
        try:
            self.message = message or self.msg_fmt % self.kwargs
        except KeyError:
            self.message = self.msg_fmt
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def format_message(self) -> str:
        """Return the text."""
        return self.message


class NoValidHost(NovaException, errors.NoValidHost):
    """No host can take the request; made as nova's is."""

    __module__ = MODULE
    msg_fmt = 'No valid host was found. %(reason)s'

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.reason = kwargs.get('reason', message or '')
