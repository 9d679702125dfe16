# SPDX-License-Identifier: Apache-2.0
"""``novasched explain``: why a server went where it went, or why it got no host."""

from __future__ import annotations

import argparse
import contextlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, IN_PART, Answer, add_local
from novasched.commands.console_client import ConsoleCommand, of_decision
from novasched.commands.inspection import InspectionCommand
from novasched.inspection.texts.lines import Style
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.typed_json import of_json, to_json

if TYPE_CHECKING:
    from novasched.decisions.reading import Criteria
    from novasched.decisions.record import DecisionRecord
    from novasched.inspection.questions.all_decisions import AllDecisions
    from novasched.inspection.questions.explain import Explanation
    from novasched.inspection.questions.reports import WhyNotReport

MOST = 50
"""Decisions that --all shows."""
NEWEST_HERE = (
    'This is the newest decision of this machine; --all shows every one, and asks the '
    'other schedulers, too.'
)
A_DECISION = re.compile(r'd-[0-9a-zA-Z]{4,13}')
A_SERVER = re.compile(r'[0-9a-f]{8}[0-9a-f-]*')
LENGTH_OF_UUID = 36
A_REQUEST = 'req-'


class Subject(NamedTuple):
    """Subject of an explanation: a server, a request or a decision."""

    server: str = ''
    request: str = ''
    decision: str = ''
    name: str = ''

    @property
    def is_name(self) -> bool:
        """True if no more is known of it than the name of a server."""
        return not (self.server or self.request or self.decision)

    @property
    def may_be_name(self) -> bool:
        """True if a server may be called so: it is neither a request nor a uuid."""
        return not self.request and len(self.server) < LENGTH_OF_UUID

    def criteria(self) -> Criteria:
        """Return criteria for the records on a server or request."""
        from novasched.decisions.reading import Criteria

        return Criteria(server=self.server or None, request=self.request or None)

    def __str__(self) -> str:
        if self.server:
            return f'on server {f"{self.name} " if self.name else ""}{self.server}'
        return f'on request {self.request}' if self.request else self.decision


class Found(NamedTuple):
    """The records that were found, and the schedulers that did not answer."""

    records: Sequence[DecisionRecord] = ()  # the newest first
    unanswered: Sequence[str] = ()
    oldest_at: int | None = None
    """If there are no records, when the oldest one was made, in us since 1970."""


class ExplainDecision(ConsoleCommand, InspectionCommand):
    """Explain why a server went where it went, or why it got no host.

    Shows the newest decision; for a uuid or id, the newest of this machine, if any. See
    docs/reference/explain.md for its parts.

    Exit codes: 0 answered, 1 error, 2 usage, 3 no such decision is kept, 4 not found,
    and some schedulers did not answer.
    """

    ONLY_HERE = MappingProxyType({'host': '--host', 'all': '--all', 'local': '--local'})

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'what',
            metavar='SERVER|REQUEST|DECISION',
            help='name or uuid of a server (8 digits are enough), id of a request '
            '(req-...), or id of a decision (d-..., 6 characters are enough)',
        )
        local = self.local_options(parser)
        local.add_argument('--host', help='show how this host fared, then and now')
        local.add_argument(
            '--then-only',
            action='store_true',
            help='with --host, do not ask what the host would say now',
        )
        local.add_argument(
            '--all',
            action='store_true',
            help='all decisions on it, by whichever scheduler, the newest first, '
            f'{MOST} at most',
        )
        add_local(local)
        parser.add_argument(
            '--index',
            type=int,
            metavar='N',
            help='server N, from 0, of a request for several',
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='every host and what became of it, and every filter; ids in full',
        )
        return parser

    def servers_called(self, name: str) -> tuple[list[str], list[str]]:
        """Return the uuids of servers of a name in the databases of nova, and the cells
        that did not answer."""
        from novasched.inspection.session import servers

        with servers.opened(self.configuration(servers.OPTIONS)) as finder:
            return finder.called(name), finder.unreadable

    def now(self, host: str, record: DecisionRecord) -> dict[str, Any] | None:
        """Return the verdict of a host now on the request of a record, with ``text`` in
        words.

        None if the host cannot be asked.
        """
        request = record.body.request
        if request is None:
            return None
        from oslo_config import cfg

        from novasched.inspection.questions.why_not import why_not

        project = record.head.project_id or None
        try:
            with self.inspection() as cloud:
                asked = cloud.maker.like(request, project, 1)
                found = why_not(cloud.run, host, asked, cloud.placement)
        except (errors.NovaschedError, cfg.Error) as problem:
            self.warn(f'{host} cannot be asked what it says now: {problem}')
            return None
        return {**to_json(found), 'text': in_short(found)}

    def report(self, parsed_args: argparse.Namespace) -> Explanation | dict[str, Any]:
        if parsed_args.console:
            return self._of_console(parsed_args)
        what = parsed_args.what
        subject = _subject(what)
        found = Found() if subject.is_name else self._look(subject, parsed_args)
        unavailable: list[str] = []
        if subject.may_be_name and not found.records:
            uuids, unavailable = self._called(what, subject)
            if uuids:
                subject = Subject(server=uuids[0], name=what)
                found = self._look(subject, parsed_args)
        unanswered = found.unanswered
        if not found.records:
            self.code = IN_PART if unanswered or unavailable else ANSWER_IS_NO
            return {'id': None, 'text': _nothing(subject, found.oldest_at)}
        made = [
            replace(
                self._explained(record, subject, parsed_args), unanswered=unanswered
            )
            for record in found.records
        ]
        return {'explanations': made} if parsed_args.all else made[0]

    def _look(self, subject: Subject, parsed_args: argparse.Namespace) -> Found:
        """Look for records, and say what is missing in them."""
        with contextlib.ExitStack() as opened:
            sources, records = self._found(subject, parsed_args, opened)
            for line in sources.warnings:
                self.warn(line)
            oldest_at = None if records else sources.oldest_at()
            return Found(records, sources.unanswered, oldest_at)

    def _of_console(
        self, parsed_args: argparse.Namespace
    ) -> Explanation | dict[str, Any]:
        """Return the newest explanation that a console has."""
        subject = _subject(parsed_args.what)
        if subject.is_name:
            problem = 'a console finds servers by their uuid alone'
            raise errors.OptionError('SERVER', problem, 'Give the uuid')
        decision = subject.decision
        unanswered: Sequence[str] = ()
        if not decision:
            from novasched.decisions.listing import DecisionPage

            kind = 'server' if subject.server else 'request'
            given = [(kind, subject.server or subject.request), ('limit', '1')]
            page = self.of_console(parsed_args, '/decisions', given) or {}
            found = of_json(DecisionPage, page)
            unanswered = found.unanswered
            decision = next((head.id for head in found.decisions), '')
        made = decision and self._of_decision(parsed_args, decision, subject.server)
        if not made:
            self.code = IN_PART if unanswered else ANSWER_IS_NO
            return {'id': None, 'text': f'The console has no decision {subject}.'}
        return made if parsed_args.long else replace(made, hosts=None)

    def _of_decision(
        self, parsed_args: argparse.Namespace, decision: str, server: str
    ) -> Explanation | None:
        from novasched.decisions.decided import index_of
        from novasched.inspection.questions.explain import Explanation

        def of_index(index: int | None) -> Explanation | None:
            given = [] if index is None else [('index', str(index))]
            found = self.of_console(parsed_args, of_decision(decision), given)
            return of_json(Explanation, found) if found else None

        index = parsed_args.index
        made = of_index(index)
        if index is None and server and made is not None:
            index = index_of(made.servers, server)
            return made if index is None else of_index(index)
        return made

    def _found(
        self,
        subject: Subject,
        parsed_args: argparse.Namespace,
        opened: contextlib.ExitStack,
    ) -> tuple[AllDecisions, list[DecisionRecord]]:
        """Return where was looked, and the records: what this machine has is enough for
        an id, unless all is asked for."""

        def found(
            local_only: bool, every: bool
        ) -> tuple[AllDecisions, list[DecisionRecord]]:
            sources = self.sources(local_only)
            opened.enter_context(contextlib.closing(sources))
            return sources, self._records(sources, subject, every)

        if not (subject.name or parsed_args.all or parsed_args.local):
            with contextlib.suppress(errors.OptionError):  # it may keep no records
                own, records = found(local_only=True, every=False)
                if records:
                    if not subject.decision:
                        self.say(NEWEST_HERE)
                    return own, records
        return found(parsed_args.local, parsed_args.all)

    def _explained(
        self, record: DecisionRecord, subject: Subject, parsed_args: argparse.Namespace
    ) -> Explanation:
        from novasched.decisions.decided import ServerDecision, index_of
        from novasched.inspection.questions.explain import explanation

        index, host = parsed_args.index, parsed_args.host
        if index is None:
            index = index_of(record.body.servers, subject.server)
        made = explanation(record, index, parsed_args.long, SYSTEM_CLOCK.time())
        made = replace(made, server_name=subject.name or None)
        if not host:
            return made
        now = None if parsed_args.then_only else self.now(host, record)
        return replace(
            made, of_host=ServerDecision(record, index).of_host(host), now=now
        )

    def _called(self, what: str, subject: Subject) -> tuple[list[str], list[str]]:
        """Return the server of a name, at most one, and the cells that did not
        answer.

        Raises errors.OptionError for a name that several servers have, or none, if all
        cells answered and it is the id of nothing else.
        """
        from oslo_config import cfg

        try:
            uuids, unavailable = self.servers_called(what)
        except (errors.NovaschedError, cfg.Error) as failed:
            if subject.is_name:
                raise
            self.warn(f'whether a server is called {what} is not known: {failed}')
            return [], []
        self.warn_of(unavailable)
        if len(uuids) > 1:
            problem = f'{len(uuids)} servers are called {what}: {", ".join(uuids)}'
            raise errors.OptionError('SERVER', problem, 'Give the uuid')
        if not uuids and not unavailable and subject.is_name:
            problem = f'there is no server called {what}'
            raise errors.OptionError('SERVER', problem, 'Give the uuid')
        return uuids, unavailable

    def _records(
        self, sources: AllDecisions, subject: Subject, every: bool
    ) -> list[DecisionRecord]:
        """Return the newest record on a subject, or all of them."""
        ids = [subject.decision]
        if not subject.decision:
            ids = [head.id for head in sources.find(subject.criteria(), MOST)]
        try:
            read = [sources.read(each) for each in (ids if every else ids[:1])]
        except errors.DecisionNotFound:  # it is no id
            return []
        return [record for record in read if record is not None]

    def text(self, answer: Explanation | Answer, style: Style) -> str:
        from novasched.inspection.texts import render

        every: Sequence[Any] = [answer]
        if isinstance(answer, Mapping):
            if 'text' in answer:  # there is nothing to explain
                return str(answer['text'])
            every = answer['explanations']
        draw = render.host_as_text if self.parsed_args.host else render.as_text
        return '\n'.join(draw(each, style) for each in every)


def _subject(what: str) -> Subject:
    """Return the kind of a name, by its form; a server may be called as a decision,
    or as another server's uuid begins."""
    if A_DECISION.fullmatch(what):
        return Subject(decision=what)
    if what.startswith(A_REQUEST):
        return Subject(request=what)
    with contextlib.suppress(ValueError):
        return Subject(server=str(uuid.UUID(what)))
    if A_SERVER.fullmatch(what):
        return Subject(server=what)
    return Subject(name=what)


def _nothing(subject: Subject, oldest_at: int | None) -> str:
    """Return the message where no decision is kept."""
    if subject.is_name:
        return f'There is no server called {subject.name} in the cells that answer.'
    from novasched.runtime.times import time_of

    said = f'No decision {subject} is kept'
    if oldest_at is None:
        said += '; the decision log is empty'
    else:
        said += f'; the oldest is of {time_of(oldest_at)}'
    if subject.server:
        plan = f'novasched plan move {subject.server}'
        return f'{said}. What would be decided now: {plan}'
    return f'{said}.'


def in_short(found: WhyNotReport) -> str:
    """Return the verdict of a host now, in a line."""
    if found.fits:
        rank = f', rank {found.rank} of {found.of}' if found.rank else ''
        return f'it would be taken{rank}.'
    said = [
        ': '.join(filter(None, (each.name, each.code, each.text)))
        for each in found.failing
    ]
    return f'it fails {len(said)} of {len(found.conditions)}: {"; ".join(said)}.'
