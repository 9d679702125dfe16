# SPDX-License-Identifier: Apache-2.0
"""Fits through nova's classes and through ours, side by side.

With ``numa_compat = nova`` we say what nova says. With ``right`` we do so, too, but
where nova has a defect; and whoever is placed fits, by the rules.
"""

import collections
import operator

from novasched.releases import NEWEST
from novasched.scheduler.fit.nova_search import fit_as_nova
from novasched.scheduler.fit.pci import requests_of
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.search import ordered
from tests.differential import fits, ours_fits
from tests.differential.fit_differences import defects, difference
from tests.differential.fit_shrinking import shrink
from tests.differential.judge import Judge
from tests.golden.numa_pci.test_fit import described, question_of
from tests.golden.numa_pci.test_numa_pci_hosts import parsed
from tests.golden.test_golden import text_of
from tests.support.clouds.topologies import fit

MADE_SMALL = 3
SMALLER = {'allocation_candidates', 'repeat'}


class FitComparison:
    """Both sides; ``tally`` counts what was compared, ``defects`` nova's."""

    def __init__(self, peer):
        self._peer = peer
        self.tally = collections.Counter()
        self.tally['version'] = peer.version
        self.defects = collections.Counter()
        self._reports = 0

    def check(self, seeds):
        """Return a report on the first seed whose fit is not as it should be."""
        made = [fits.fit(seed) for seed in seeds]
        checked = self.compare(made)
        for case, (theirs, problem, defect) in zip(made, checked, strict=True):
            placed = sum(entry['passes'] for entry in theirs['sequence'])
            self.tally.update(fits=1, placed=placed)
            if defect:
                self.defects[defect] += 1
            if problem:
                return self._report(case, problem)
        return None

    def compare(self, made):
        """Return of each fit nova's answer, what is wrong with ours, and the defect.

        The defect of nova is why our right answer is another; it may be None, too.
        """
        self._peer.ask(made)
        try:
            # While the peer thinks.
            ours = [self._ours(case, 'nova', 'right') for case in made]
        finally:
            theirs = self._peer.answers()
        return [
            (their, *self._judged(case, their, *our))
            for case, their, our in zip(made, theirs, ours, strict=True)
        ]

    def _report(self, case, problem):
        repeat = (
            f'--seed {case["id"].partition("-")[2]} --seeds 1 makes this fit alone.'
        )
        lines = [case['title'], repeat, problem]
        self._reports += 1
        if self._reports <= MADE_SMALL:
            lines += self._small(case, problem)
        return '\n'.join(lines)

    def _small(self, case, problem):
        """Return the lines on a smaller fit that goes wrong in the same way."""

        def still_wrong(smaller):
            ((_, found, _),) = self.compare([smaller])
            return found is not None and subject_of(found) == subject_of(problem)

        small = shrink(case, still_wrong)
        ((_, found, _),) = self.compare([small])
        case = self.golden_case(small)
        return ['The same on a small fit:', found, 'As a golden case:', text_of(case)]

    def golden_case(self, case):
        """Return a fit in the form of the golden cases, nova's word in it.

        The order of the nodes is ours: nova does not tell.
        """
        ((told, _, _),) = self.compare([{**case, 'tell_fit': True}])
        return {**case, 'expected': expected(case, told)}

    def _ours(self, case, *modes):
        try:
            return ours_fits.answers(case, *modes, release=self._peer.release)
        except Exception as problem:
            problem.add_note(case['title'])
            raise

    def _judged(self, case, theirs, like_nova, right):
        """Return what is wrong with our answers, and nova's defect; None for none."""
        found = difference(theirs, like_nova[0])
        if found:
            return f'numa_compat=nova, {found}', None
        problem = _misplaced(case, theirs, *right, self._peer.release)
        if problem:
            return f'numa_compat=right, {problem}', None
        found = difference(theirs, right[0])
        if found is None:
            return None, None
        defect = defects(case, theirs, found, self._misjudged_alone(case))
        if defect:
            return None, defect
        return f'numa_compat=right, {found}', None

    def _misjudged_alone(self, case):
        """Return the candidates with which alone nova's search errs."""
        once = {name: value for name, value in case.items() if name not in SMALLER}
        erred = []
        for number, candidate in enumerate(case['allocation_candidates']):
            one = {**once, 'allocation_candidates': [candidate]}
            (like_nova, _), (right, _) = self._ours(one, 'nova', 'right')
            if like_nova['filters'] != right['filters'] or (
                like_nova['sequence'][0]['guest'] != right['sequence'][0]['guest']
            ):
                erred.append(number)
        return erred


def expected(case, theirs):
    """Return what a golden case expects, from nova's answer."""
    asked = question_of(case)
    tried, same = None, True
    if asked is not None:
        cells, guest, _, devices, pack = asked
        found = (search(*asked) for search in (fit_as_nova, fit))
        same = operator.eq(*(described(attempt, cells) for attempt in found))
        if len(cells) >= len(guest.cells):
            tried = [cell.id for cell in ordered(cells, guest, devices, pack)]
    entries = [
        {name: entry[name] for name in ('passes', 'candidates', 'consume')}
        for entry in theirs['sequence']
    ]
    both = {name: entries[0][name] for name in ('passes', 'candidates')}
    return {
        'cell_order': tried,
        'fit': theirs['fit'],
        'filters': theirs['filters'] and {**theirs['filters'], 'both': both},
        'consume': entries[0]['consume'],
        **({'sequence': entries} if 'repeat' in case else {}),
        'same_as_stateless_search': same,
    }


def subject_of(problem):
    """Return what a problem is about."""
    return problem.partition(', nova')[0].partition(': ')[0]


def _misplaced(case, theirs, ours, everyone, release):
    """Say who was placed where it does not fit, or not placed where it does."""
    if not case['instance_numa_topology']:
        return None
    for number, (entry, found) in enumerate(
        zip(ours['sequence'], everyone, strict=False)
    ):
        if case['limits'] and found.host.numa_topology:
            wrong = list(judge_of(case, found, release).problems(entry['guest']))
            if wrong:
                return f'instance {number}, misplaced: {"; ".join(wrong)}'
    their, our = theirs['sequence'][0], ours['sequence'][0]
    guest, consumed = their['guest'], their['consume']
    if not (case['limits'] and case['host_numa_topology'] and guest and consumed):
        return None
    chosen = consumed['candidate']
    if chosen in our['candidates']:
        return None
    host = ours_fits.host_of(case).state(0)
    found = ours_fits.Found(host, host.allocation_candidates[chosen])
    if any(judge_of(case, found, release).problems(guest)):
        return None
    return f'not placed: nova finds {guest} with candidate {chosen}'


def judge_of(case, found, release=NEWEST):
    """Return the judge of an instance of a fit, by what it found."""
    requests = requests_of(parsed(case['pci_requests']))
    devices = HostDevices(
        found.host.pci_stats.free,
        requests,
        found.candidate['mappings'],
        found.host.numa_topology.sockets,
    )
    cells = found.host.numa_topology.cells
    topology, limits = case['instance_numa_topology'], case['limits']
    within = release.pins_within_free_memory
    return Judge(cells, topology, limits, devices.supports, within)
