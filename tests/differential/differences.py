# SPDX-License-Identifier: Apache-2.0
"""Where two answers about a cloud differ, and how much they say."""

import math


def differences(theirs, ours):
    """Return a line for each part of the answers that differs."""
    if 'refused' in theirs or 'refused' in ours:
        if ('refused' in theirs) == ('refused' in ours):
            return []
        return [
            f'request: nova {theirs.get("refused", "accepts it")}, '
            f'we {ours.get("refused", "accept it")}'
        ]
    return [
        *_of_filters(theirs['filters'], ours['filters']),
        *_of_weighers(theirs['weighers'], ours['weighers']),
        *_of_decisions(theirs['decisions'], ours['decisions']),
    ]


def _of_filters(theirs, ours):
    for name, outcomes in theirs.items():
        pairs = zip(outcomes, ours[name], strict=True)
        for number, (their, our) in enumerate(pairs):
            # A name is that of an exception: which one it is, is free.
            if their != our and not (isinstance(their, str) and isinstance(our, str)):
                yield f'{name}, host {number}: nova {their}, we {our}'


def _of_weighers(theirs, ours):
    for name, their in theirs.items():
        our = ours[name]
        if 'raises' in their and 'raises' in our:
            continue
        if 'raises' in their or 'raises' in our:
            yield f'{name}: nova {_said(their)}, we {_said(our)}'
            continue
        for stage in ('raw', 'multipliers', 'normalized', 'weights'):
            if not _equal(their.get(stage), our.get(stage)):
                yield f'{name}, {stage}: nova {their.get(stage)}, we {our.get(stage)}'
                break


def _said(answer):
    return f'raises {answer["raises"]}' if 'raises' in answer else 'gives weights'


def _equal(their, our):
    """Return whether numbers are equal to the last bit; 0.0 equals -0.0."""
    if their is None or our is None:
        return their is our
    return len(their) == len(our) and all(map(_same_number, their, our))


def _same_number(their, our):
    return float(their) == our or (math.isnan(their) and math.isnan(our))


def _of_decisions(theirs, ours):
    for number, (their, our) in enumerate(zip(theirs, ours, strict=False)):
        if 'raises' in their and 'raises' in our:
            return
        difference = _of_decision(their, our)
        if difference:
            yield f'decision {number}, {difference}'
            return  # the next ones start from this one
    if len(theirs) != len(ours):
        yield f'decisions: nova makes {len(theirs)}, we make {len(ours)}'


def _of_decision(their, our):
    if 'raises' in their or 'raises' in our:
        return (
            f'nova {their.get("raises", "decides")}, we {our.get("raises", "decide")}'
        )
    for name in ('notes', 'steps'):
        if their[name] != our[name]:
            return f'{name}: nova {their[name]}, we {our[name]}'
    their_nodes, their_weights = _columns(their['ranked'])
    our_nodes, our_weights = _columns(our['ranked'])
    if any(map(math.isnan, their_weights)):
        # Not a number is not more or less than another: no order is the right one.
        their_weights = dict(zip(their_nodes, their_weights, strict=True))
        our_weights = dict(zip(our_nodes, our_weights, strict=True))
        if their_weights.keys() == our_weights.keys() and all(
            _same_number(weight, our_weights[node])
            for node, weight in their_weights.items()
        ):
            return None
    elif their_nodes == our_nodes and _equal(their_weights, our_weights):
        one, other = their.get('taken'), our.get('taken')
        return None if one == other else f'taken: nova {one}, we {other}'
    return f'ranked: nova {their["ranked"]}, we {our["ranked"]}'


def _columns(ranked):
    return [node for node, _ in ranked], [weight for _, weight in ranked]


def decisions_in(answer):
    """Return how many single decisions an answer holds.

    Each is a yes or no of one filter to one host, a weight of one host by one
    weigher, or a ranking of hosts for an instance.
    """
    if 'refused' in answer:
        return 1
    return (
        sum(map(len, answer['filters'].values()))
        + sum(len(found.get('weights', '1')) for found in answer['weighers'].values())
        + len(answer['decisions'])
    )
