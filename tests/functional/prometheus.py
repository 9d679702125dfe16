# SPDX-License-Identifier: Apache-2.0
"""Prometheus' promtool, and the names that its queries may use."""

import re
import subprocess

from novasched.observability import catalogue

SERIES = {
    each.name + suffix: {*each.labels, *(['le'] if suffix == '_bucket' else [])}
    for each in catalogue.ALL
    for suffix in (('_bucket', '_sum', '_count') if each.buckets else ('',))
}
"""The labels of each series that the service shows, by its name."""
GIVEN = {'instance', 'job'}
"""Labels that Prometheus adds when it reads."""
NAME = re.compile(r'\bnovasched_\w+')
SELECTED = re.compile(r'\b(novasched_\w+)\s*\{([^}]*)\}')
MATCHED = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
GROUPED = re.compile(r'\bby\s*\(([^)]*)\)')


def promtool(*words):
    """Run it; fail with what it says where it finds a fault."""
    done = subprocess.run(
        ['promtool', *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def unknown_in(query):
    """The names and labels of a query that no metric of the catalogue has."""
    names = NAME.findall(query)
    known = GIVEN.union(*(SERIES.get(name, ()) for name in names))
    grouped = {
        label.strip() for each in GROUPED.findall(query) for label in each.split(',')
    }
    matched = {
        f'{name}{{{label}}}'
        for name, matchers in SELECTED.findall(query)
        for label in MATCHED.findall(matchers)
        if label not in SERIES.get(name, set()) | GIVEN
    }
    return sorted({n for n in names if n not in SERIES} | (grouped - known) | matched)
