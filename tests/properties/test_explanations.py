# SPDX-License-Identifier: Apache-2.0
"""Explanations of any record: counts add up, every host has one outcome, and the text
keeps to its width."""

import collections
import itertools
import json
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from novasched.decisions.decided import ServerDecision
from novasched.inspection.questions.explain import explanation
from novasched.inspection.texts import advice
from novasched.inspection.texts.lines import Style
from novasched.inspection.texts.render import as_text, host_as_text
from novasched.runtime.typed_json import to_json
from novasched.scheduler.reasons import Blocker, Code
from tests.support.records import decision_records as records

CODES = st.sampled_from([str(code) for code in Code])
WORDS = st.text('abc -', max_size=60)
FLOATS = st.floats(allow_nan=True, width=32)
ESCAPES = re.compile(r'\x1b\[[0-9;]*m')


@st.composite
def splits(draw, total):
    """Numbers from 1 up whose sum is a total."""
    parts = []
    while total:
        parts.append(draw(st.integers(1, total)))
        total -= parts[-1]
    return parts


@st.composite
def steps(draw, start):
    """Filters that take hosts away, each with reasons."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        end = draw(st.integers(0, start))
        reasons = [
            (draw(CODES), draw(WORDS), count, draw(st.sampled_from(['', 'cmp-001'])))
            for count in draw(splits(start - end))
        ]
        found.append(records.step(f'Filter{number}', start, end, *reasons))
        start = end
    return found


@st.composite
def diagnoses(draw):
    counts = draw(st.lists(st.integers(1, 40), max_size=4))
    reasons = [
        records.reason(
            draw(CODES),
            count,
            draw(st.sampled_from(['', 'VCPU'])),
            draw(st.integers(0, count)),
            draw(st.none() | st.integers(0, 9)),
        )
        for count in counts
    ]
    offered = draw(st.integers(0, 9))
    return {
        'age_s': 3.0,
        'source': 'api',
        'hosts': sum(counts) + offered,
        'offered': offered,
        'reasons': reasons,
    }


@st.composite
def decisions(draw, known, candidates, index=0):
    """A decision over some of the known hosts."""
    narrowed = draw(st.integers(0, candidates))
    made = records.decision(known, candidates, [], left=narrowed, index=index)
    made['steps'] = listed = draw(steps(narrowed))
    made['left'] = left = listed[-1]['out'] if listed else narrowed
    made['outcomes'] = records.outcomes(known, candidates, listed, left)
    best = min(left, 10)
    made['top'] = records.host_names(best)
    made['totals'] = draw(st.lists(FLOATS, min_size=best, max_size=best))
    made['weighers'] = [
        records.weigher(f'W{number}Weigher', values, draw(FLOATS))
        for number in range(draw(st.integers(0, 9)))
        for values in [draw(st.lists(FLOATS, min_size=best, max_size=best))]
    ]
    made['host'] = draw(st.sampled_from([None, *made['top']]))
    return made


@st.composite
def made_records(draw):
    """A record of a request for one or two servers."""
    known = draw(st.integers(0, 40))
    candidates = draw(st.integers(0, known))
    decided = [draw(decisions(known, candidates))]
    if draw(st.booleans()):
        left = draw(st.integers(0, candidates))
        decided.append(draw(decisions(known, left, index=1)))
    blocker = draw(st.sampled_from(['', *advice.BLOCKERS]))
    asked = records.asked(
        candidates=candidates + draw(st.integers(0, 5)), cut=draw(st.booleans())
    )
    hosts = [made['host'] for made in decided]
    return records.record(
        {
            'result': 'unschedulable' if blocker else 'scheduled',
            'blocker': blocker,
            'plugin': draw(st.sampled_from(['', 'Filter0'])),
            'candidates': candidates,
            'hosts': known,
            'servers': len(hosts),
        },
        hosts=known,
        asked=draw(st.sampled_from([[], [asked]])) if blocker == '' else [asked],
        decisions=draw(st.sampled_from([decided, []])),
        servers=[records.server(records.SERVER, host) for host in hosts],
        placement=draw(st.none() | diagnoses()),
        error=draw(st.none() | st.just({'class': 'KeyError', 'text': 'a b'})),
        claims=[records.claim('cmp-001', 'conflict', draw(WORDS))],
        notes=draw(st.lists(WORDS, max_size=2)),
    )


indices = st.none() | st.just(0)


@given(made_records(), indices)
def test_counts_add_up(record, index):
    stages = explanation(record, index).stages
    for stage in stages:
        assert all(reason.count > 0 for reason in stage.reasons)
        lost = sum(reason.count for reason in stage.reasons)
        assert stage.before - stage.after == lost
    for one, next_ in itertools.pairwise(stages):
        assert one.after == next_.before


@given(made_records(), indices)
def test_every_host_has_one_outcome(record, index):
    made = explanation(record, index, long=True)
    if made.hosts is None:  # or placement, asked once more, had no host left
        assert not record.body.decisions or made.blocker == Blocker.NO_CANDIDATES
        return
    assert set(made.hosts) == {*record.host_lists['abc']}
    counts = collections.Counter(made.hosts.values())
    for stage in made.stages:
        if stage.name.startswith('Filter') or stage.name == 'earlier servers':
            assert counts[stage.name] == stage.before - stage.after
    last = made.stages[-1].after if made.stages else len(made.hosts)
    assert counts['passed'] == last


@given(made_records(), st.integers(0, 130), st.booleans(), st.booleans())
def test_texts_keep_to_their_width(record, width, is_long, has_colour):
    made = explanation(record, long=is_long)
    text = as_text(made, Style(width, has_colour, is_long))
    assert has_colour or not ESCAPES.search(text)
    for line in ESCAPES.sub('', text).splitlines():
        assert len(line) <= max(width, 40) or is_one_word(line), line
        assert line == line.rstrip()


def is_one_word(line):
    """A name, an id or a command is never cut; a label of 8 may stand before it."""
    return line.startswith('Next') or len(line[8:].split()) <= 1


@given(made_records(), st.integers(40, 120))
def test_every_host_can_be_asked_about(record, width):
    for host in record.host_lists['abc'][:5]:
        of_host = ServerDecision(record).of_host(host)
        made = replace(explanation(record), of_host=of_host)
        json.dumps(to_json(made), allow_nan=False)
        assert f'Host    {host}\nThen    ' in host_as_text(made, Style(width))
