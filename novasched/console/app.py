# SPDX-License-Identifier: Apache-2.0
"""The pages of the console, and the same answers as JSON: functions of a reader."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import flask
import jinja2
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from novasched import errors
from novasched.commands.base import FORMAT_VERSION
from novasched.commands.console_client import API, PARAMETERS
from novasched.commands.decisions import BY
from novasched.commands.explain import A_DECISION, A_REQUEST
from novasched.console import metrics, security
from novasched.console.cloud import Cloud
from novasched.console.compression import compressed
from novasched.console.pages import (
    capacity,
    decision,
    decisions,
    failure,
    health,
    heat,
    host,
    hosts,
    lab,
    overview,
    plan,
    query,
    shadow,
    shapes,
    words,
)
from novasched.console.pages.query import PageQuery
from novasched.inspection.session.orders import (
    MOST_ROWS,
    PAGE,
    DrainOrder,
    HostsOrder,
    MoveOrder,
    PlanOrder,
    ShadowOrder,
    WhyNotOrder,
)
from novasched.inspection.texts import amounts
from novasched.inspection.texts.lines import counted
from novasched.runtime.typed_json import to_json

NAVIGATION = (
    ('overview', '/', 'Overview', 'g'),
    ('decisions', '/decisions', 'Decisions', 'd'),
    ('plan', '/plan', 'Plan', 'p'),
    ('capacity', '/capacity', 'Capacity', 'c'),
    ('hosts', '/hosts', 'Hosts', 'h'),
    ('shadow', '/shadow', 'Shadow', ''),
    ('lab', '/lab', 'Lab', ''),
    ('health', '/health', 'Health', ''),
)
"""Pages by name, with their addresses, titles and keys."""
RETRY_AFTER_S = 2
PATTERN = '*?[,'
"""Signs that make a name of hosts a pattern, or several names."""
ASKED_WRONGLY = (errors.OptionError, errors.InvalidRequest, errors.AmbiguousDecision)
Refused = Callable[[PageQuery, str], dict[str, Any]]
FORMS: dict[str, Refused] = {'plan': plan.refused, 'capacity': capacity.refused}
"""Pages that keep what was typed, with a sentence, where it is refused."""
FILLED_IN = 'A page of another site has filled in this form. Send it to see the answer.'


class Answered(NamedTuple):
    """An answer of the reader, and the page that is made of it when it is shown."""

    report: Any  # a dataclass, or a dict of JSON
    view: Callable[[], dict[str, Any]] = dict  # there is only the JSON


class PageReports:
    """Asks the reader what each page is made of; its methods have the names of pages
    and templates."""

    def __init__(self, reader: Cloud) -> None:
        self._reader = reader
        self._flavors: list[str] = []

    def _suggested(self) -> list[str]:
        """Return flavors to choose from; the last known ones if none can be read."""
        with contextlib.suppress(errors.NovaschedError):
            self._flavors = self._reader.flavors()
        return self._flavors

    def overview(self, asked: PageQuery) -> Answered:
        report = self._reader.overview()
        return Answered(report, lambda: overview.view(report))

    def decisions(self, asked: PageQuery) -> Answered:
        limit = asked.number('limit', PAGE, 1, MOST_ROWS)
        before = asked.text('before') or None
        report = self._reader.decisions(asked.criteria(), before, limit)

        def view() -> dict[str, Any]:
            return decisions.view(report, asked, self._total(asked))

        return Answered(report, view)

    def _total(self, asked: PageQuery) -> int | None:
        """Return how many decisions meet criteria; None where that is not found out."""
        try:
            found = self._reader.count('result', asked.criteria())
        except errors.NovaschedError:
            return None
        return sum(each.count for each in found.rows)

    def counts(self, asked: PageQuery) -> Answered:
        by = asked.choice('by', BY) or BY[0]
        report = self._reader.count(by, asked.criteria())
        return Answered(report, lambda: decisions.counts(report, asked, by))

    def decision(self, asked: PageQuery, name: str) -> Answered:
        report = self._reader.decision(name, asked.index())
        if report is None:
            raise errors.DecisionNotFound(name)
        return Answered(report, lambda: decision.view(report, asked))

    def plan(self, asked: PageQuery) -> Answered:
        order = asked.order(PlanOrder)
        is_asked = order.flavor or order.like
        report: Any = self._reader.plan(order) if is_asked else None
        flavors = self._suggested
        view = lambda: plan.view(report, asked, flavors())  # noqa: E731
        return Answered(report or {}, view)

    def move(self, asked: PageQuery) -> Answered:
        return Answered(self._reader.plan(asked.order(MoveOrder)))

    def drain(self, asked: PageQuery) -> Answered:
        return Answered(self._reader.plan(asked.order(DrainOrder)))

    def why_not(self, asked: PageQuery) -> Answered:
        return Answered(self._reader.why_not(asked.order(WhyNotOrder)))

    def capacity(self, asked: PageQuery) -> Answered:
        report = self._reader.capacity(asked.capacity())

        def view() -> dict[str, Any]:
            flavor = capacity.mapped(report, asked)
            heat = self._reader.heat(flavor) if flavor else None
            return capacity.view(report, heat, asked, self._suggested())

        return Answered(report, view)

    def heat(self, asked: PageQuery) -> Answered:
        report = self._reader.heat(asked.text('flavor'))
        return Answered(report, lambda: {'heat': heat.view(report)})

    def hosts(self, asked: PageQuery) -> Answered:
        report = self._reader.hosts(asked.order(HostsOrder))
        flavors = self._suggested
        return Answered(report, lambda: hosts.view(report, asked, flavors()))

    def host(self, asked: PageQuery, name: str) -> Answered:
        try:
            report = self._reader.host(name)
        except errors.OptionError as problem:
            raise HostNotFound(str(problem)) from problem
        return Answered(report, lambda: host.view(report))

    def shadow(self, asked: PageQuery) -> Answered:
        order = asked.order(ShadowOrder)
        report = self._reader.shadow(order)
        return Answered(report, lambda: shadow.view(report, order))

    def lab(self, asked: PageQuery) -> Answered:
        report = self._reader.lab(asked.text('run'))
        return Answered(report, lambda: lab.view(report, asked))

    def health(self, asked: PageQuery) -> Answered:
        report = self._reader.health()
        return Answered(report, lambda: health.view(report))

    def metrics(self) -> Response:
        accepted = flask.request.headers.get('Accept', '')
        content, kind = metrics.shown(self._reader.health()['free_slots'], accepted)
        return flask.Response(content, content_type=kind)

    def search(self) -> Response:
        return flask.redirect(self._found(_asked().text('q')))

    def _found(self, typed: str) -> str:
        """Return the address of what was typed: a decision, a request, a server or a
        host."""
        if not typed:
            return '/decisions'
        if A_DECISION.fullmatch(typed.lower()):
            return query.of_decision(typed.lower())
        if typed.lower().startswith(A_REQUEST):
            return query.of_decisions(request=typed.lower())
        try:
            return query.of_decisions(server=str(uuid.UUID(typed)))
        except ValueError:
            return self._host_found(typed)

    def _host_found(self, typed: str) -> str:
        """Return the address of the host of this very name, or of those that have it
        in theirs."""
        listed = query.of_hosts(name=typed)
        if set(typed) & set(PATTERN):
            return listed
        try:  # with a comma it is a whole name
            found = self._reader.hosts(HostsOrder(name=f'{typed},', limit=1))
        except errors.NovaschedError:
            return listed
        return query.of_host(found.hosts[0].host) if found.total == 1 else listed


class HostNotFound(errors.NovaschedError):
    """There is no host of this name."""


def create(reader: Cloud) -> flask.Flask:
    """Return the console as a WSGI application, which has no security of its own."""
    app = flask.Flask('novasched.console')
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.url_map.merge_slashes = False
    app.jinja_env.undefined = jinja2.StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    for each in (
        *(words.grouped, words.clock, words.time),
        *(amounts.duration, amounts.in_units, counted),
    ):
        app.jinja_env.filters[each.__name__] = each
    app.jinja_env.globals.update(query=query, shapes=shapes, words=words)
    app.context_processor(lambda: _frame(reader))
    app.register_error_handler(errors.NovaschedError, _failed)
    app.register_error_handler(HTTPException, _refused)
    app.after_request(compressed)
    pages = PageReports(reader)
    for rule, name in (
        ('/', 'overview'),
        ('/decisions', 'decisions'),
        ('/decisions/count', 'counts'),
        ('/decisions/<path:name>', 'decision'),
        ('/plan', 'plan'),
        ('/capacity', 'capacity'),
        ('/capacity/heat', 'heat'),
        ('/hosts', 'hosts'),
        ('/hosts/<path:name>', 'host'),
        ('/shadow', 'shadow'),
        ('/lab', 'lab'),
        ('/health', 'health'),
    ):
        ask = getattr(pages, name)
        shown = _form if name in FORMS else _page
        app.add_url_rule(rule, name, shown(ask, name))
        app.add_url_rule(API + rule, f'{name}-json', _json(ask))
    for rule, ask in (
        ('/plan/move', pages.move),
        ('/plan/drain', pages.drain),
        ('/why-not', pages.why_not),
    ):
        app.add_url_rule(API + rule, rule, _json(ask))
    app.add_url_rule('/search', 'search', pages.search)
    app.add_url_rule('/metrics', 'metrics', pages.metrics)
    return app


def _asked() -> PageQuery:
    given = flask.request.args.items(multi=True)
    return PageQuery(flask.request.path.removeprefix(API) or '/', given)


def _page(ask: Callable[..., Answered], name: str) -> Callable[..., str]:
    def shown(**names: str) -> str:
        page = ask(_asked(), **names).view()
        return flask.render_template(f'{name}.html', page=page)

    return shown


def _form(ask: Callable[..., Answered], name: str) -> Callable[..., Any]:
    """Return a page with a form; what was typed stays where it is refused.

    Another site may fill in the form. A dry run is expensive, so the user sends it.
    """
    shown = _page(ask, name)

    def refused(why: str) -> str:
        page = FORMS[name](_asked(), why)
        return flask.render_template(f'{name}.html', page=page)

    def form() -> Any:
        if security.is_of_other_site(flask.request.environ):
            return refused(FILLED_IN)
        try:
            return shown()
        except ASKED_WRONGLY as problem:
            return refused(failure.sentences(problem)), 400

    return form


def _json(ask: Callable[..., Answered]) -> Callable[..., Response]:
    def answer(**names: str) -> Response:
        asked = _asked()
        report = to_json(ask(asked, **names).report)
        found = flask.jsonify({'v': FORMAT_VERSION, **report})
        found.headers[PARAMETERS] = ','.join(sorted(asked.read))
        return found

    return answer


def _frame(reader: Cloud) -> dict[str, Any]:
    """Return the frame of every page; a shadow and the lab are in it where they are."""
    path = flask.request.path
    first = re.match(r'/[^/]*', path)
    where = first.group() if first else '/'
    there: dict[str, Callable[[], bool]] = {
        'lab': reader.has_lab,
        'shadow': lambda: _has_shadow(reader),
    }
    return {
        'navigation': [
            {'href': href, 'title': title, 'key': key, 'is_here': href == where}
            for name, href, title, key in NAVIGATION
            if href == where or name not in there or there[name]()
        ],
        'as_json': _asked().api() if flask.request.endpoint else '',
    }


def _has_shadow(reader: Cloud) -> bool:
    with contextlib.suppress(errors.NovaschedError):
        return reader.has_shadow()
    return False


def _failed(problem: errors.NovaschedError) -> Response:
    if isinstance(problem, errors.Busy):
        answer = _error(503, problem)
        answer.headers['Retry-After'] = str(RETRY_AFTER_S)
        return answer
    if isinstance(problem, errors.DecisionNotFound | HostNotFound):
        return _error(404, problem)
    return _error(400 if isinstance(problem, ASKED_WRONGLY) else 503, problem)


def _refused(problem: HTTPException) -> Response:
    if problem.code is None or problem.code < 400:
        return problem.get_response()
    answer = _error(problem.code, problem)
    for name, value in problem.get_headers():
        if name not in ('Content-Type', 'Content-Length'):
            answer.headers[name] = value
    return answer


def _error(status: int, problem: Exception) -> Response:
    text = failure.text(problem)
    if flask.request.path.startswith(API):
        return json_error(status, text)
    page = failure.view(status, text, problem, _asked())
    shown = flask.render_template('failure.html', page=page)
    return flask.make_response(shown, status)


def json_error(status: int, text: str) -> Response:
    """Return an error in the JSON of the API."""
    said = {'v': FORMAT_VERSION, 'status': status, 'error': text}
    return flask.make_response(said, status)
