# SPDX-License-Identifier: Apache-2.0
"""The page of what cannot be shown: why, and what to do."""

from __future__ import annotations

from werkzeug.exceptions import HTTPException

from novasched import errors
from novasched.console.pages import query
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.runtime.deadline import TookTooLong

TITLES = {
    400: 'That cannot be asked so',
    404: 'There is no such page',
    500: 'The console failed',
    503: 'No answer just now',
}
FAILED = 'The log of the console has more. Report it as a defect.'


def text(problem: Exception) -> str:
    """Describe the problem in a sentence or two."""
    if isinstance(problem, errors.OptionError):
        option = problem.option.removeprefix('--').replace('_', ' ')
        name = option[:1].upper() + option[1:]
        return f'{name}: {problem.problem.rstrip(". ")}.'
    if isinstance(problem, HTTPException):
        return FAILED if problem.code == 500 else problem.description or problem.name
    said = str(problem)
    return said if said.endswith(('.', '?', '!')) else f'{said}.'


def sentences(problem: Exception) -> str:
    """Describe the problem and its remedy."""
    return ' '.join([text(problem), *_advice(400, problem)])


def view(status: int, said: str, problem: Exception, asked: PageQuery) -> View:
    """Return the values for the page."""
    return {
        'title': _title(status, problem),
        'status': status,
        'text': said,
        'advice': list(_advice(status, problem)),
        'next': list(_next(status, problem, asked)),
    }


def _title(status: int, problem: Exception) -> str:
    if isinstance(problem, errors.Busy):
        return 'Too much at once'
    if isinstance(problem, TookTooLong):
        return 'This takes too long'
    if isinstance(problem, errors.DecisionNotFound):
        return 'No such decision'
    if isinstance(problem, errors.NovaschedError) and status == 404:
        return 'No such host'
    if isinstance(problem, HTTPException):
        return TITLES.get(status, problem.name)
    return TITLES[status]


def _advice(status: int, problem: Exception) -> list[str]:
    if isinstance(problem, errors.OptionError):
        return [f'{problem.remedy.rstrip(". ")}.']
    if isinstance(problem, errors.Busy):
        return ['Load the page again in a few seconds: nothing was lost.']
    if isinstance(problem, errors.DecisionNotFound):
        return [
            'It may be older than what is kept ([novasched] decisions_max_days and '
            'decisions_max_mb), or its scheduler did not answer.'
        ]
    if isinstance(problem, TookTooLong):
        return ['Scheduling goes on, and nothing was claimed.']
    if status == 503:
        return ['Scheduling goes on. See which part is unavailable on the page Health.']
    return []


def _next(status: int, problem: Exception, asked: PageQuery) -> list[Link]:
    made = []
    if isinstance(problem, errors.Busy):
        made.append(Link('Try again', asked.href()))
    if isinstance(problem, errors.DecisionNotFound):
        made.append(Link('The newest decisions', '/decisions'))
        host = problem.decision
        made.append(Link(f'Hosts called {host}', query.of_hosts(name=host)))
    elif status == 404:
        made.append(Link('All hosts', '/hosts'))
    if status == 503:
        made.append(Link('Health', '/health'))
    if status == 400:
        made.append(Link('Start again', asked.path))
    return [*made, Link('Overview', '/')]
