# SPDX-License-Identifier: Apache-2.0
"""A run of the policy lab: what each policy would have done, in figures and over
time."""

from __future__ import annotations

from novasched.console.pages import words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.policy_lab import charts, texts
from novasched.policy_lab.charts import Chart
from novasched.policy_lab.results import RunResult
from novasched.policy_lab.run_list import LabReport

SHOWN = ('allocated_vcpus_percent', 'empty_percent', 'unallocatable_percent')
"""Series that are drawn, before the room for flavors."""


def view(answer: LabReport, asked: PageQuery) -> View:
    """Return the values for the page."""
    runs = [
        (Link(each.name, asked.href(run=each.name)), each.name == answer.name, each.at)
        for each in answer.runs
    ]
    found = {} if answer.run is None else _run(answer.run)
    return {'runs': runs, 'problem': answer.problem, 'run': found}


def _run(run: RunResult) -> View:
    names = [each.name for each in run.plan.policies]
    rooms = texts.shown_rooms(run)
    return {
        'about': texts.about(run),
        'policies': run.plan.policies,
        'other_load': texts.other_load(run) if run.overloaded else '',
        'figures': texts.figures(run),
        'charts': [_chart(run, name) for name in (*SHOWN, *map(texts.of_room, rooms))],
        'refused': [
            (name, found or words.NOTHING)
            for name in names
            for found in [texts.most_refused(run.of_policy(name))]
        ],
    }


def _chart(run: RunResult, name: str) -> Chart:
    return charts.chart(texts.named(name), texts.series_of(run, name))
