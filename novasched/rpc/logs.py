# SPDX-License-Identifier: Apache-2.0
"""The log: its set-up, and one line for a message that cannot be read."""

from __future__ import annotations

import logging
import traceback

from oslo_config import cfg
from oslo_log import log

import novasched
from novasched import errors, printable

LOGGERS = ('oslo.messaging._drivers.impl_rabbit', 'oslo_messaging.rpc.server')


class OneLine(logging.Filter):
    """Turns the traceback of an error that none of our code saw into text.

    Where our code is in the traceback it stays: that is a defect to be found.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        kind, error, trace = record.exc_info or (None, None, None)
        ours = tuple(novasched.__path__)
        frames = traceback.extract_tb(trace)
        is_ours = any(frame.filename.startswith(ours) for frame in frames)
        if kind is not None and not is_ours:
            message = record.getMessage().rstrip('. ')
            record.msg, record.args = '%s: %s: %s', (message, kind.__name__, error)
            record.exc_info = record.exc_text = None
        return True


ONE_LINE = OneLine()


def set_up(conf: cfg.ConfigOpts) -> None:
    """Log as the options of oslo.log say, and what the message layer cannot read in
    one line; what is logged shows control characters. Raises errors.OptionError.
    """
    printable.in_logs()
    try:
        log.setup(conf, 'nova')
    except OSError as problem:
        option = 'log_file' if problem.filename else 'use_syslog'
        said = ': '.join(filter(None, (problem.filename, problem.strerror)))
        raise errors.OptionError(
            f'[DEFAULT] {option}', said, 'Name a place that this user can write to'
        ) from problem
    except log.LogConfigError as problem:
        raise errors.OptionError(
            '[DEFAULT] log_config_append', str(problem), 'Correct that file'
        ) from problem
    for name in LOGGERS:
        logging.getLogger(name).addFilter(ONE_LINE)
