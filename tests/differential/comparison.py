# SPDX-License-Identifier: Apache-2.0
"""Clouds through nova's classes and through ours, side by side."""

import collections
import itertools
import operator

from tests.differential import clouds, ours
from tests.differential.differences import decisions_in, differences
from tests.differential.shrinking import shrink
from tests.differential.verdicts import mended, quirks_of
from tests.golden.test_golden import text_of

# Theirs are compared in tests of their own.
NOT_HERE = {'NUMATopologyFilter', 'PciPassthroughFilter'}
# It takes seconds; where much differs, a few say it.
MADE_SMALL = 3


class Comparison:
    """Both sides; ``tally`` counts what was compared."""

    def __init__(self, peer):
        self._peer = peer
        self.filters = sorted({*peer.filters} & {*ours.FILTERS} - NOT_HERE)
        self.weighers = sorted({*peer.weighers} & {*ours.WEIGHERS})
        self.tally = collections.Counter(
            filters=len(self.filters), weighers=len(self.weighers)
        )
        self.tally['version'] = peer.version
        self._reports = 0

    def cloud(self, seed):
        """Return the cloud of a seed, to go through every filter and weigher."""
        made = clouds.cloud(seed, self.filters, self.weighers)
        return {**made, 'all_filters': self.filters, 'all_weighers': self.weighers}

    def check(self, seeds):
        """Return a report on the first seed whose cloud the two decide unlike."""
        made = [self.cloud(seed) for seed in seeds]
        theirs, differ = self.compare(made)
        for cloud, answer in zip(made, theirs, strict=True):
            self.tally.update(clouds=1, decisions=decisions_in(answer))
            self.tally.update(quirks_of(cloud))
        for seed, cloud, found in zip(seeds, made, differ, strict=True):
            if found:
                return self._report(seed, cloud, found)
        return None

    def compare(self, made):
        """Return the peer's answers, and for each cloud where ours differ."""
        self._peer.ask([mended(cloud) for cloud in made])
        try:
            # While the peer thinks.
            answers = [_our_answer(cloud, self._peer.release) for cloud in made]
        finally:
            theirs = self._peer.answers()
        return theirs, list(map(differences, theirs, answers))

    def _report(self, seed, cloud, found):
        repeat = f'--seed {seed} --seeds 1 makes this cloud alone.'
        lines = [cloud['about'], repeat, *found]
        self._reports += 1
        if self._reports <= MADE_SMALL:
            lines += self._small(cloud, found)
        return '\n'.join(lines)

    def _small(self, cloud, found):
        """Return the lines on a smaller cloud that differs in the same way."""
        subject = subject_of(found[0])

        def still_differs(smaller):
            _, (left,) = self.compare([smaller])
            return any(subject_of(line) == subject for line in left)

        small = shrink(cloud, still_differs)
        _, (left,) = self.compare([small])
        case = self._golden_case(small)
        return ['The same on a small cloud:', *left, 'As a golden case:', text_of(case)]

    def _golden_case(self, cloud):
        """Return a small cloud in the form of the golden cases, nova's word in it."""
        case = {
            **cloud,
            'filters': cloud['filters'] or cloud['all_filters'],
            'weighers': cloud['weighers'] or cloud['all_weighers'],
        }
        (answer,), _ = self.compare([case])
        for name in ('all_filters', 'all_weighers'):
            del case[name]
        case['request'] = {
            name: value
            for name, value in case['request'].items()
            if (name, value) not in ours.UNSAID.items()
        }
        case['recorded_from'] = f'nova {self._peer.version}'
        case['decisions'] = [
            recorded(decision)
            for decision in answer.get('decisions', ())
            if 'ranked' in decision
        ]
        return case


def _our_answer(cloud, release):
    try:
        return ours.answer(cloud, release)
    except Exception as problem:
        problem.add_note(cloud['about'])
        raise


def subject_of(line):
    """Return what a difference is about: the filter, weigher or stage."""
    return line.partition(':')[0].partition(', host')[0]


def recorded(decision):
    """Return a decision as a golden case records it."""
    ties = itertools.groupby(decision['ranked'], key=operator.itemgetter(1))
    return {
        'steps': decision['steps'],
        'weights': dict(decision['ranked']),
        'order': [sorted(name for name, _ in tie) for _, tie in ties],
    }
