# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow, made of comparisons."""

from novasched.decisions.comparison import Cause, ComparedServer, Verdict
from novasched.inspection.questions import shadow
from novasched.inspection.questions.shadow import ShadowReport, report
from novasched.runtime.typed_json import of_json, to_json
from tests.support.tables.cases import cases

SINCE, HOUR = 1_000_000_000, 3_600_000_000
UNTIL = SINCE + 24 * HOUR


def compared(verdict, cause='', detail='', *, id='d-1', **changes):
    return ComparedServer(
        **{
            'id': id,
            'at': SINCE + HOUR,
            'request_id': 'req-1',
            'flavor': 'm1.large',
            'took_us': 12_000,
            'server': 'server',
            'verdict': str(verdict),
            'cause': str(cause),
            'detail': detail,
            'ours': 'cmp-1',
            'nova': 'cmp-2',
            'known_by': 'allocation',
            'seen_ms': 1500,
            'nova_ms': None,
            'refused': '',
            'weighers': '',
            **changes,
        }
    )


def reported(*servers, listened=()):
    return report(servers, listened, SINCE, UNTIL)


def better(number, weighers='RAMWeigher'):
    return [compared(Verdict.BETTER, Cause.UNKNOWN, weighers=weighers)] * number


def rejected(number, cause=Cause.FILTER, detail='PciPassthroughFilter'):
    return [compared(Verdict.REJECTED, cause, detail)] * number


EQUAL = compared(Verdict.EQUAL, nova='cmp-1')
WORSE = compared(Verdict.WORSE, Cause.UNKNOWN, weighers='RAMWeigher')


@cases(
    ('servers', 'findings'),
    ('nothing', [], []),
    ('the same', [EQUAL] * 20, []),
    ('too few', better(4), []),
    ('one weigher', better(5), [('weighers', 'RAMWeigher', 5, 5)]),
    (
        'two weighers',
        better(5, 'RAMWeigher,CPUWeigher'),
        [('weighers', 'RAMWeigher', 5, 5), ('weighers', 'CPUWeigher', 5, 5)],
    ),
    ('nine of ten', [*better(9), WORSE], [('weighers', 'RAMWeigher', 9, 10)]),
    ('eight of ten', [*better(8), WORSE, WORSE], []),
    ('where nova is better', [WORSE] * 20, []),
    (
        'explained ones do not count',
        [*better(5), *[compared(Verdict.BETTER, Cause.OTHER_REQUEST, 'req-2')] * 5],
        [('weighers', 'RAMWeigher', 5, 5)],
    ),
    (
        'a filter',
        [EQUAL, *rejected(5)],
        [('filter', 'PciPassthroughFilter', 5, 6)],
    ),
    ('a filter, seldom', [EQUAL, *rejected(4)], []),
    (
        'not offered',
        rejected(5, Cause.NOT_OFFERED, ''),
        [('not_offered', '', 5, 5)],
    ),
    (
        'weighers before filters',
        [*rejected(6), *better(5)],
        [('weighers', 'RAMWeigher', 5, 5), ('filter', 'PciPassthroughFilter', 6, 11)],
    ),
)
def test_findings_are_the_same_in_many_differences(servers, findings):
    found = reported(*servers).findings
    assert [(f.cause, f.name, f.servers, f.of) for f in found] == findings


@cases(
    ('verdict', 'same', 'known', 'different'),
    *[(v, v, 1, 1, 0) for v in (Verdict.EQUAL, Verdict.ALIKE)],
    (Verdict.UNKNOWN, Verdict.UNKNOWN, 0, 0, 0),
    *[
        (v, v, 0, 1, 1)
        for v in (
            Verdict.BETTER,
            Verdict.WORSE,
            Verdict.REJECTED,
            Verdict.OURS_ONLY,
            Verdict.NOVA_ONLY,
        )
    ],
)
def test_each_verdict_counts_as_same_different_or_unknown(
    verdict, same, known, different
):
    found = reported(compared(verdict, Cause.CHANCE))
    assert (found.same, found.known, found.different) == (same, known, different)
    assert found.verdicts == {verdict: 1}
    assert len(found.differences) == different
    assert found.causes == ({Cause.CHANCE: 1} if different else {})


def test_counts_stand_in_the_order_of_the_words():
    found = reported(
        compared('of a later release', 'new'), WORSE, *rejected(2), *better(1), EQUAL
    )
    assert list(found.verdicts) == [
        *('equal', 'better', 'worse', 'rejected'),
        'of a later release',
    ]
    assert list(found.causes) == ['filter', 'unknown', 'new']


def test_request_for_several_servers_counts_once():
    servers = [compared(Verdict.EQUAL, server=n, nova_ms=40) for n in 'ab']
    found = reported(*servers, compared(Verdict.EQUAL, id='d-2', took_us=20_000))
    assert (found.requests, found.servers) == (2, 3)
    assert (found.our_ms.number, found.our_ms.p50, found.our_ms.p99) == (2, 12.0, 12.0)
    assert (found.nova_ms.number, found.nova_ms.p50) == (1, 40.0)


def test_time_until_the_choice_was_seen_stands_in_for_an_unknown_latency():
    found = reported(
        compared(Verdict.EQUAL, nova_ms=40),
        compared(Verdict.EQUAL, seen_ms=900),
        compared(Verdict.UNKNOWN, seen_ms=60_000),
    )
    assert (found.seen_ms.number, found.seen_ms.p50) == (1, 900.0)


def test_refusals_say_where_ours_was_another_host():
    found = reported(
        compared(Verdict.EQUAL, refused='cmp-1'),
        compared(Verdict.BETTER, Cause.UNKNOWN, refused='cmp-2,cmp-3'),
        compared(Verdict.NOVA_ONLY, Cause.UNKNOWN, ours=None, refused='cmp-2'),
    ).refusals
    assert (found.servers, found.elsewhere) == (3, 1)
    assert found.hosts == {'cmp-2': 2, 'cmp-1': 1, 'cmp-3': 1}


S = 1_000_000


@cases(
    ('listened', 'tapped_h', 'gaps'),
    ('never', [], 0, []),
    ('all the time', [(SINCE - HOUR, UNTIL)], 24, []),
    ('until now, but for what is not yet written', [(SINCE, UNTIL - 30 * S)], 24, []),
    ('it began later', [(SINCE + HOUR, UNTIL)], 23, []),
    ('it has ended', [(SINCE, UNTIL - HOUR)], 23, [(UNTIL - HOUR, UNTIL)]),
    (
        'twice, the newest gap first',
        [
            (SINCE, SINCE + HOUR),
            (SINCE + 2 * HOUR, SINCE + 3 * HOUR),
            (SINCE + 5 * HOUR, UNTIL),
        ],
        21,
        [(SINCE + 3 * HOUR, SINCE + 5 * HOUR), (SINCE + HOUR, SINCE + 2 * HOUR)],
    ),
    (
        'one within the other',
        [(SINCE, UNTIL), (SINCE + HOUR, SINCE + 2 * HOUR)],
        24,
        [],
    ),
    ('two that meet', [(SINCE, SINCE + HOUR), (SINCE + HOUR, UNTIL)], 24, []),
    ('a clock that is ahead', [(SINCE, UNTIL + HOUR)], 24, []),
)
def test_gaps_lie_between_the_times_of_tapping(listened, tapped_h, gaps):
    found = reported(listened=listened)
    assert round(found.tapped_s / 3600, 1) == tapped_h
    assert [(each.since, each.until) for each in found.gaps] == gaps
    assert found.gaps_total == len(gaps)


def test_long_reports_keep_the_newest():
    number = shadow.MOST_DIFFERENCES + 5
    servers = [compared(Verdict.BETTER, Cause.LATE, id=f'd-{n}') for n in range(number)]
    listened = [(SINCE + n * 10 * S, SINCE + (n * 10 + 5) * S) for n in range(50)]
    found = reported(*servers, listened=listened)
    assert [each.id for each in found.differences] == [
        f'd-{n}' for n in range(shadow.MOST_DIFFERENCES)
    ]
    assert (found.different, found.gaps_total) == (number, 50)
    assert len(found.gaps) == shadow.MOST_GAPS
    assert found.gaps[0].until == UNTIL


def test_json_of_a_report_is_read_as_the_same_report():
    found = reported(EQUAL, *better(5), listened=[(SINCE, UNTIL - HOUR)])
    made = to_json(found)
    assert made['differences'][0]['at'] == '1970-01-01T01:16:40.000000Z'
    assert to_json(of_json(ShadowReport, made)) == made
