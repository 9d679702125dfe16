# SPDX-License-Identifier: Apache-2.0
"""A reader of the console that answers from records made by hand, and what is on the
pages that are made of it."""

import html.parser
from dataclasses import asdict

from novasched.console import app
from novasched.decisions.listing import CountPage, DecisionPage
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.overview import SchedulerOverview
from novasched.inspection.questions import explain, overview
from novasched.inspection.questions.reports import (
    BootPlan,
    CapacityReport,
    HeatReport,
    HostReport,
    HostsReport,
)
from novasched.inspection.questions.shadow import ShadowReport, report
from novasched.policy_lab.run_list import LabReport, ListedRun
from novasched.runtime.times import time_of
from novasched.runtime.typed_json import of_json, to_json
from tests.support.records import decision_records
from tests.support.records.compared_records import one_of_each
from tests.support.records.lab_runs import run_result
from tests.support.records.stored_records import write

MINUTE_US = 60_000_000
RECORDS = {
    each.head.id: each
    for each in (decision_records.scheduled(), decision_records.unschedulable())
}
SCHEDULED, UNSCHEDULABLE = RECORDS


def heads():
    return [
        {
            **asdict(each.head),
            'at': time_of(each.head.at),
            'picked': picked,
            'server_uuids': [decision_records.SERVER],
        }
        for each, picked in zip(RECORDS.values(), (['cmp-044'], []), strict=True)
    ]


def part(**changes):
    """The overview of one scheduler."""
    newest = [
        {**asdict(each.head), 'picked': picked, 'server': 'uuid', 'rejected': 27}
        for each, picked in zip(RECORDS.values(), (['cmp-044'], []), strict=True)
    ]
    at, shared = decision_records.AT, {'count': 1, 'share': 0.5}
    given = {
        'until': at + 10 * MINUTE_US,
        'results': {'scheduled': 3, 'unschedulable': 2},
        'minutes': [
            {'at': at // MINUTE_US * MINUTE_US, 'scheduled': 3, 'unschedulable': 1},
            {'at': (at // MINUTE_US + 5) * MINUTE_US, 'unschedulable': 1},
        ],
        'took_us': {'total': 100_000, 'sample': [19_000, 24_000]},
        'query_ms': [17.0],
        'reasons': [
            {**shared, 'value': 'NUMATopologyFilter', 'most_often': 'x'},
            {**shared, 'value': '(placement)', 'most_often': 'no-candidates'},
        ],
        'view': {'ages_s': {'cell1': 1.0, 'cell3': 74.0}, 'left_out': ['cell3']},
        'newest': newest,
        **changes,
    }
    return of_json(SchedulerOverview, given)


def stranded(why, hosts, amount):
    return {'why': why, 'hosts': hosts, 'amount': amount}


CAPACITY = {
    'as_of': '2026-11-22T12:10:07Z',
    'placement_age_s': 41.2,
    'cells_left_out': {'cell3': 96},
    'hosts': 312,
    'cells': 2,
    'not_counted': {'disabled': 38, 'down': 0},
    'rows': [
        {
            'flavor': 'm1.large',
            'by': 'az1',
            'slots': 12,
            'hosts': 3,
            'resources': {
                'VCPU': {
                    'free': 100,
                    'usable': 48,
                    'stranded': [
                        stranded('exhausted MEMORY_MB', 4, 40),
                        stranded('remainder', 3, 12),
                    ],
                }
            },
            'largest': {'host': 'cmp-009', 'slots': 7},
        },
        {
            'flavor': 'odd',
            'by': None,
            'slots': 0,
            'hosts': 0,
            'resources': {},
            'largest': None,
            'refused': 'No valid host was found.',
        },
    ],
}
HOST_ROW = {
    'host': 'cmp-009',
    'cell': 'cell1',
    'zone': 'az1',
    'aggregates': ['az1', 'pinned'],
    'state': 'disabled',
    'reason': 'memory is replaced',
    'used': {'VCPU': [3, 64], 'MEMORY_MB': [1024, 262144], 'CUSTOM_FPGA': [1, 1]},
    'servers': 2,
    'slots': None,
}
HOSTS = {
    'hosts': [HOST_ROW],
    'total': 101,
    'page': 1,
    'pages': 3,
    'cells': ['cell1'],
    'zones': ['az1'],
    'aggregates': ['pinned'],
    'cells_left_out': [],
}
NO_HOSTS = {**HOSTS, 'hosts': [], 'total': 0, 'pages': 1, 'zones': []}


def _shadow():
    """The report of a shadow with every verdict and cause."""
    store = MemoryDecisions()
    since, until = decision_records.AT, decision_records.AT + 24 * 60 * MINUTE_US
    at_s = since // 1_000_000
    write(store, one_of_each(at_s + 60, lambda name: f'{name}-{at_s}'))
    hour = 60 * MINUTE_US
    tapped = [(since, since + hour), (since + 2 * hour, until)]
    return to_json(report(store.compared(since), tapped, since, until))


SHADOW = _shadow()
LAB = LabReport(
    [ListedRun('azure', '2026-11-22T12:00:00.000000Z')],
    'azure',
    run_result(refused=(4, 0), needed=(12, 11)),
)
NO_SHADOW = to_json(report((), [], decision_records.AT, decision_records.AT))


class GivenReader:
    """Answers as it was told, by the name of the question; an exception is raised."""

    def __init__(self, **answers):
        self._answers = answers
        self.asked = []

    def _answer(self, name, default, *arguments):
        self.asked.append((name, *arguments))
        answer = self._answers.get(name, default)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def overview(self):
        return self._answer('overview', overview.merged({'ctl1': part()}, 3600.0))

    def decisions(self, criteria, before, limit):
        found = {'decisions': heads(), 'next': UNSCHEDULABLE, 'unanswered': []}
        found = self._answer('decisions', found, criteria, before, limit)
        return of_json(DecisionPage, found)

    def count(self, by, criteria):
        row = {'value': 'NUMATopologyFilter', 'count': 2, 'share': 1.0}
        found = {'rows': [row | {'most_often': 'not-enough-pages'}], 'unanswered': []}
        return of_json(CountPage, self._answer('count', found, by, criteria))

    def decision(self, decision, index):
        record = RECORDS.get(decision)
        found = record and explain.explanation(record, index, long=True)
        return self._answer('decision', found, decision, index)

    def plan(self, order):
        found = self._answer('plan', None, order)
        return found and of_json(BootPlan, found)

    def capacity(self, order):
        found = self._answer('capacity', CAPACITY, order)
        return of_json(CapacityReport, found)

    def heat(self, flavor):
        hosts = [['cmp-001', 0], ['cmp-002', None], ['cmp-003', 7]]
        group = {'zone': 'az1', 'aggregate': 'pinned', 'hosts': hosts}
        found = self._answer('heat', {'flavor': flavor, 'groups': [group]}, flavor)
        return of_json(HeatReport, found)

    def hosts(self, order):
        found = self._answer('hosts', {**HOSTS, 'page': order.page}, order)
        return of_json(HostsReport, found)

    def host(self, name):
        return of_json(HostReport, self._answer('host', {}, name))

    def flavors(self):
        return self._answer('flavors', ['m1.large', 'm1.pinned.8'])

    def shadow(self, order):
        return of_json(ShadowReport, self._answer('shadow', SHADOW, order))

    def has_shadow(self):
        answer = self._answers.get('has_shadow', False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def lab(self, run):
        return self._answer('lab', LAB, run)

    def has_lab(self):
        return self._answers.get('has_lab', False)

    def health(self):
        check = {'status': 'warn', 'time': '', 'output': 'cell3 does not answer'}
        found = {'status': 'warn', 'checks': {'cells': check}, 'free_slots': []}
        return self._answer('health', found)


def client(**answers):
    """Return a client of the console on such a reader."""
    return app.create(GivenReader(**answers)).test_client()


APART = ('td', 'th', 'tr', 'li', 'dt', 'dd', 'p', 'div', 'h2', 'h3', 'ul')
"""Elements whose text stands apart from that before them."""


class SeenPage(html.parser.HTMLParser):
    """The elements of a page in their order, as names and attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.texts = []
        self._open = []
        self.feed(text)

    def handle_starttag(self, name, attributes):
        if name in APART:
            self.handle_data(' ')
        self.elements.append((name, dict(attributes)))
        self.texts.append('')
        self._open.append(len(self.elements) - 1)

    def handle_endtag(self, name):
        while self._open and self.elements[self._open.pop()][0] != name:
            pass

    def handle_data(self, data):
        for place in self._open:
            self.texts[place] += data

    def all(self, tag, /, **attributes):
        """Return the attributes and text of elements; None: has any value."""
        wanted = {key.rstrip('_'): value for key, value in attributes.items()}
        return [
            (found, ' '.join(text.split()))
            for (is_named, found), text in zip(self.elements, self.texts, strict=True)
            if is_named == tag
            and all(k in found and v in (None, found[k]) for k, v in wanted.items())
        ]

    def text(self, tag='main', /, **attributes):
        return self.all(tag, **attributes)[0][1]


def page(path, status=200, **answers):
    """Return the page at a path."""
    answer = client(**answers).get(path)
    assert answer.status_code == status, answer.text
    return SeenPage(answer.text)
