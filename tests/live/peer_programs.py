# SPDX-License-Identifier: Apache-2.0
"""Run nova-manage and nova-status of the peer, many times in one process.

Reads a line for each run, ``["manage", "cell_v2", ...]`` in JSON, forks, and writes a
line with the exit code and the output: loading the peer takes seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback

PROGRAMS = {
    name: importlib.import_module(f'nova.cmd.{name}') for name in ('manage', 'status')
}


def run(program, words):
    """Run a program in a child; give its exit code and both outputs."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            become(program, words)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return [code, out.read().decode(), err.read().decode()]


def become(program, words):
    """Run a program to its end, and end with it."""
    sys.argv = [f'nova-{program}', *words]
    code = 1
    try:
        code = PROGRAMS[program].main() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except Exception:  # noqa: BLE001  as the interpreter ends a program
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255)


def main():
    """Answer each line."""
    for line in sys.stdin:
        program, *words = json.loads(line)
        sys.stdout.write(json.dumps(run(program, words)) + '\n')
        sys.stdout.flush()


if __name__ == '__main__':
    main()
