# SPDX-License-Identifier: Apache-2.0
"""Commands, run on a context of the API that is played."""

import argparse
import contextlib
import json

from tests.unit.commands.played import Output


class App:
    """What cliff gives to commands; ``typed`` is what a person types at a terminal."""

    def __init__(self, typed=None):
        self.stdin = Output(is_terminal=typed is not None)
        self.stdin.write(typed or '')
        self.stdin.seek(0)
        self.stdout, self.stderr = Output(), Output()
        self.options = argparse.Namespace(config_file=[], config_dir=[])


def run(kind, api, *words, form='json', typed=None):
    """Run a command; return its exit code, its output, and what it said beside."""
    app = App(typed)

    class Here(kind):
        """The command, on the context of the test."""

        def api(self):
            return contextlib.nullcontext(api)

    command = Here(app, None)
    parsed = command.get_parser('novasched').parse_args(['-f', form, *words])
    code = command.run(parsed)
    text = app.stdout.getvalue()
    output = json.loads(text or 'null') if form == 'json' else text
    return code, output, app.stderr.getvalue()
