# SPDX-License-Identifier: Apache-2.0
"""Records of a shadow, made by hand: what it decided beside what nova chose."""

from novasched.decisions.comparison import Cause, KnownBy, Verdict
from novasched.decisions.record import new_id
from tests.support.records.decision_records import changed
from tests.support.records.stored_records import make_record

NO_HOST = 'No valid host was found.'
WEIGHTS = {Verdict.BETTER: (1.75, 1.5), Verdict.WORSE: (1.5, 1.75)}


def comparison(
    verdict,
    cause='',
    detail='',
    *weighers,
    server='server',
    ours='cmp-1',
    nova='cmp-2',
    **more,
):
    """A comparison in the body of a record; ``more`` is of nova's choice."""
    ours = None if verdict == Verdict.NOVA_ONLY else ours
    known_by = KnownBy.ALLOCATION
    if verdict == Verdict.EQUAL:
        nova = ours
    elif verdict in (Verdict.OURS_ONLY, Verdict.UNKNOWN):
        nova = None
        is_failed = verdict == Verdict.OURS_ONLY
        known_by = KnownBy.FAILED if is_failed else KnownBy.UNKNOWN
    our_weight, nova_weight = WEIGHTS.get(verdict, (None, None))
    return {
        'server': server,
        'ours': ours,
        'nova': {
            'host': nova,
            'known_by': known_by,
            'seen_s': 1.25,
            'took_s': None,
            'refused': [],
            'fault': NO_HOST if verdict == Verdict.OURS_ONLY else '',
            **more,
        },
        'verdict': str(verdict),
        'cause': str(cause),
        'detail': detail,
        'our_weight': our_weight,
        'nova_weight': nova_weight,
        'weighers': list(weighers),
    }


def compared_record(at_s, *compared, **head):
    """A record of a request whose servers were compared."""
    named = [
        {'uuid': each['server'], 'host': each['ours'], 'alternates': []}
        for each in compared
    ]
    body = {'servers': named, 'shadow': list(compared)}
    host = next((each['ours'] for each in compared if each['ours']), None)
    made = make_record(at_s, host, body=body, servers=len(compared), **head)
    return changed(made, id=new_id(at_s, 0))


def one_of_each(at_s, uuid):
    """Records of a shadow with every verdict and cause, the oldest first. ``uuid``
    makes the uuid of a server of its name."""
    said = [
        *[(Verdict.EQUAL, '', '')] * 12,
        *[(Verdict.ALIKE, Cause.CHANCE, '')] * 2,
        *[(Verdict.BETTER, Cause.UNKNOWN, '', 'RAMWeigher')] * 5,
        (Verdict.BETTER, Cause.OTHER_REQUEST, 'req-5'),
        (Verdict.BETTER, Cause.SAME_REQUEST, ''),
        (Verdict.BETTER, Cause.TRUNCATED, ''),
        (Verdict.WORSE, Cause.LATE, ''),
        *[(Verdict.REJECTED, Cause.FILTER, 'NUMATopologyFilter')] * 5,
        (Verdict.NOVA_ONLY, Cause.NOT_OFFERED, ''),
        (Verdict.OURS_ONLY, Cause.UNKNOWN, ''),
        (Verdict.OURS_ONLY, Cause.NO_CANDIDATES, ''),
        (Verdict.OURS_ONLY, Cause.NOVA_FILTERS, ''),
        (Verdict.OURS_ONLY, Cause.NOVA_ERROR, ''),
        (Verdict.UNKNOWN, '', ''),
    ]
    records = [
        compared_record(
            at_s + place,
            comparison(*each, server=uuid(f's{place}')),
            took_us=(10 + place) * 1000,
        )
        for place, each in enumerate(said)
    ]
    group = [
        comparison(Verdict.EQUAL, server=uuid('g0'), took_s=0.31),
        comparison(
            Verdict.BETTER,
            Cause.WEIGHERS,
            '',
            'RAMWeigher',
            'CPUWeigher',
            server=uuid('g1'),
            took_s=0.31,
            refused=['cmp-7'],
        ),
    ]
    return [*records, compared_record(at_s + len(said), *group, flavor='m1.small')]
