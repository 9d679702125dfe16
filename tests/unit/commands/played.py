# SPDX-License-Identifier: Apache-2.0
"""Commands, run without the program around them."""

import argparse
import io
import json


class Output(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, is_terminal=False):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


class App:
    """What cliff gives to commands."""

    NAME = 'novasched'

    def __init__(self, config_file=(), config_dir=(), is_terminal=False):
        self.stdout, self.stderr = Output(is_terminal), Output()
        self.options = argparse.Namespace(
            config_file=list(config_file), config_dir=list(config_dir)
        )


def run(kind, *words, form='json', app=None):
    """Run a command; return its exit code, its output, and what it said beside."""
    app = app or App()
    command = kind(app, None)
    parsed = command.get_parser('novasched').parse_args(['-f', form, *words])
    code = command.run(parsed)
    text = app.stdout.getvalue()
    return code, json.loads(text) if form == 'json' else text, app.stderr.getvalue()
