# SPDX-License-Identifier: Apache-2.0
"""The invariants and the fault scenarios; tests name those that they stand for.

    @pytest.mark.scenario('F7', 'I3', 'I4')

docs/reference/faults.md is made of this and of the marks, by tools/faults-page.
"""

from __future__ import annotations

import ast
import pathlib
from typing import NamedTuple

MARK = 'scenario'


class Scenario(NamedTuple):
    """A fault, what holds in spite of it, and what is not promised."""

    fault: str
    promise: str
    not_promised: str = ''


INVARIANTS = {
    'I1': (
        'No over-commit',
        'For every provider and resource class, what is used is at most '
        '(total - reserved) x allocation ratio.',
    ),
    'I2': (
        'No leak',
        'Every allocation of a consumer that a scheduler claimed belongs to a request '
        'that was answered with that host, or is removed within a bounded time.',
    ),
    'I3': (
        'One answer',
        'A request gets one answer or none; never two that differ.',
    ),
    'I4': (
        'The answer is the claim',
        'The first selection of each instance is what placement holds for it when the '
        'answer is sent.',
    ),
    'I5': (
        'Policies hold',
        'Hard affinity and anti-affinity hold over all requests that are under way.',
    ),
    'I6': (
        'No false NoValidHost',
        'While a valid host is free, the answer is not NoValidHost.',
    ),
    'I7': (
        'Bounded',
        'Latency, threads, open files and memory stay bounded; no thread is stuck '
        'for ever; the process recovers by itself.',
    ),
    'I8': (
        'The same wire',
        "Errors reach the conductor as the exception classes that nova's scheduler "
        'sends.',
    ),
}

SCENARIOS = {
    'F1': Scenario(
        'Several schedulers, many requests at once for the last free slots',
        'As many requests succeed as there are slots; the others get NoValidHost, and '
        'hold nothing. Placement 16.0.0 lets claims through that race and put a '
        'provider over its capacity: they are undone, and decided again.',
        'Claims of nova-schedulers, which do not look.',
    ),
    'F2': Scenario(
        'Several schedulers, many boots at once for the last NUMA cells, or devices '
        'that placement does not count',
        'Each is given away once: schedulers tell each other what they pick, and of '
        'two that pick at once one undoes its claim and takes another.',
        'A message that is lost, or late, and nova-schedulers, which send nothing: '
        'then the check of the compute is all there is.',
    ),
    'F3': Scenario(
        'SIGKILL between claim and answer',
        'The claim is undone from the journal by the next start, or by another worker '
        'of the machine.',
        'Where no directory can be written there is no journal; the start says so. It '
        'is of one machine and one boot, and not synced to disk: a machine that is '
        'lost leaves its claims. A claim is undone only if placement has had it since '
        'its caller certainly waited; where placement does not say since when, only '
        "while it does, 25 s by nova's defaults. One that was being answered when its "
        'worker was killed is only named in the log.',
    ),
    'F4': Scenario(
        'SIGKILL in the middle of a request for many servers; or its caller dies',
        'A joint claim of up to 100 servers is there as a whole or not at all, and is '
        'then undone. Claims in chunks of 100, or made one by one, are all undone.',
        'As for F3.',
    ),
    'F5': Scenario(
        'SIGTERM under load',
        'Requests under way are answered, none is lost, and the process ends in time.',
    ),
    'F6': Scenario(
        'SIGHUP under load',
        'Configuration and cells are read again, and no request is lost.',
        'The answer to a request that takes longer after that than '
        '`[DEFAULT] long_rpc_timeout`; its claims are undone.',
    ),
    'F7': Scenario(
        'RabbitMQ is killed and started again, idle and amid a claim',
        'The scheduler serves again within 30 s. A claim under way is made once and '
        'answered as it is.',
        'Requests that the broker itself loses are lost.',
    ),
    'F8': Scenario(
        'RabbitMQ is paused for longer than its heartbeat',
        'No thread is stuck; the next requests are served.',
        'A claim whose caller gave up meanwhile, but lives on, stays where the caller '
        'wants no signs of life: the scheduler learns of it only by the expiry of the '
        'message.',
    ),
    'F9': Scenario(
        'The caller dies, and its reply queue with it',
        'The claim is undone, with a line in the log.',
        'A caller that gave up and lives on is not noticed; see F8.',
    ),
    'F10': Scenario(
        'One request is delivered twice',
        'The server holds one host. The second answer is equal to the first, or an '
        'error. A copy that is refused frees nothing that the first one picked.',
    ),
    'F11': Scenario(
        'A request is delivered after its caller timed out',
        'It is refused, and nothing is claimed.',
        'The time that a message waited in the broker is known only where RabbitMQ '
        'stamps messages.',
    ),
    'F12': Scenario(
        'Quorum queues and streams for fanout',
        'All that holds with classic queues.',
    ),
    'F13': Scenario(
        'Placement answers claims with conflicts',
        'Another host is taken at once, without a sleep.',
    ),
    'F14': Scenario(
        'Placement is unavailable, or restarted behind a load balancer',
        'Requests wait until it answers, and are then decided from the start, in the '
        'order in which they came; those that do not need it go on, and one that takes '
        'long holds up the others for a second. Only when '
        '`[novasched] outage_patience` is over before that, or their caller is about '
        'to give up, they get NoValidHost, as from nova.',
        'A service that has been away for ten times the patience is not waited for. '
        'A request that alone fails, four times, while placement answers all else, '
        'ends before its patience is over.',
    ),
    'F15': Scenario(
        'Placement is slow, or never answers',
        'Each request ends at a deadline, others go on, and threads come back.',
        'A claim that reaches placement after its request was given up, for a server '
        'that holds nothing: no generation bars it. The log names it.',
    ),
    'F16': Scenario(
        'A claim is granted and the answer is lost',
        'It is looked up, and then adopted or undone; never made twice. While nothing '
        'can be looked up, the request waits as for F14. What another delivery of the '
        'request was answered stays.',
        'As for F15. A claim whose host is not fit any more after an outage stays '
        'until its server is deleted; the log names it.',
    ),
    'F17': Scenario(
        'Placement answers with half a body, other JSON, or a page',
        'An error of nova, no crash, no partial claim. A page is waited for as in F14, '
        'and so is a limit of the rate, 429. A claim that was answered by a page is '
        'looked up.',
    ),
    'F18': Scenario(
        'The token has ended',
        'A new one is asked for once, and the request goes on.',
    ),
    'F19': Scenario(
        "One of several cells' databases is down",
        'The hosts of the other cells are chosen from, after a bounded wait. A request '
        'that finds no host without it waits for it, as for F14, if it may use one of '
        'its hosts.',
    ),
    'F20': Scenario(
        'The database of a cell accepts and never answers',
        'As for F19; it costs the wait once, and the cell comes back by itself.',
    ),
    'F21': Scenario(
        'The API database is down',
        'Requests are served from what is known.',
    ),
    'F22': Scenario(
        'A database ends a transaction: deadlock, or a lost connection',
        'It is tried again, a bounded number of times.',
    ),
    'F23': Scenario(
        'A host dies, and its heartbeat ends',
        'It is not chosen after `[DEFAULT] service_down_time`.',
    ),
    'F24': Scenario(
        "Computes' clocks differ from the scheduler's",
        'Hosts are chosen from all the same, and the log names the clocks.',
    ),
    'F25': Scenario(
        'All heartbeats of a cell end at once',
        'The hosts are kept for a while, and the log says so loudly.',
    ),
    'F26': Scenario(
        'Messages that are malformed',
        "A typed error in nova's form where there is a caller; the next message is "
        'served. A pick of another scheduler that cannot be counted is dropped, and '
        'named in the log once; it fails no request.',
    ),
    'F27': Scenario(
        'A message that crashes a filter, or the process',
        'One request fails; a worker that dies is replaced, and the message does not '
        'come again.',
    ),
    'F28': Scenario(
        'Giant requests: 1,000 servers, 10,000 extra specs, 5 MB',
        'Time and memory are bounded, the caller hears signs of life, and the next '
        'request is served.',
        'Answers above the largest message of the broker (16 MiB by default from '
        'RabbitMQ 4.0): several thousand servers in one request.',
    ),
    'F29': Scenario(
        'A custom filter raises, hangs, or changes what it is given',
        'It is named, and other requests are not affected.',
        'A filter that hangs keeps its thread.',
    ),
    'F30': Scenario(
        'All threads are busy',
        'Metrics show it; there is no deadlock.',
    ),
    'F31': Scenario(
        'The disk of the journal is full',
        'Scheduling goes on, and the log says what is not recorded.',
    ),
    'F32': Scenario(
        'A soak: faults at random for a long time',
        'Memory and open files do not grow, and all invariants hold at the end.',
        'What the other rows do not promise.',
    ),
    'F33': Scenario(
        'nova-scheduler and novasched on one topic',
        'Servers are booted all the time; capacity is not exceeded, and nothing is '
        'left when they are deleted.',
        'What nova-scheduler does with the requests that it takes; it loses those that '
        'reach it while it stops.',
    ),
    'F34': Scenario(
        'Placement on three Galera nodes, one of which is killed amid claims, or which '
        'are restarted one after the other',
        'Every claim that was answered is there; requests that failed hold nothing. '
        'While there is no node, requests wait as for F14.',
        'What the database itself loses.',
    ),
    'F35': Scenario(
        'The disk of the decision log is full or not to be written, its directory is '
        'removed, a file is malformed',
        'Records wait, up to 4 MB, and are written when it is well again; a malformed '
        'file is set aside and the next begun. Metrics and health say so.',
        'Records beyond 4 MB: the oldest of scheduled requests go first. What a '
        'removed directory or a malformed file held. Requests that a shadow keeps '
        'whole are not written after a write that failed.',
    ),
    'F36': Scenario(
        'Another process locks a file of the decision log for 30 s',
        'Records wait, and are written in their order afterwards, none twice.',
    ),
    'F37': Scenario(
        'SIGKILL while decisions are written',
        'A record is whole or absent, and all that was written before is there.',
        'The records of the last 0.2 s. After a loss of power, those since the last '
        'checkpoint.',
    ),
    'F38': Scenario(
        'Several workers come to the end of a file of the decision log',
        'One next file is begun, and no record is lost or written twice.',
    ),
    'F39': Scenario(
        'The clock is set back by an hour, or forward by 30 days',
        'The order of decisions is kept, and no file is removed for its age.',
        'A clock that stays wrong: files are as old as it says an hour later.',
    ),
    'F40': Scenario(
        'A request cannot undo its claims in time: placement is unavailable, or others '
        'claim on the same hosts',
        'They stay in the journal. A worker of the machine undoes them, one after '
        'another, from at most 5 s after the moment when placement answers.',
        'Without a journal they stay; the log names them. A claim that is older than '
        '`[novasched] journal_undo_within`, a day, is only named.',
    ),
    'F41': Scenario(
        'The allocations of a server are removed and made again between its claim and '
        'the undo of that',
        'What was made again stays.',
        'Two claims of the same amounts on the same host within half a minute, with a '
        'removal between them, cannot be distinguished; nor can what is written in the '
        'milliseconds between the look and the undo that follows it.',
    ),
    'F42': Scenario(
        'The copy of placement is behind: a host has lost a required trait, has got a '
        'forbidden one, or has left the aggregate of its zone or tenant',
        'It is not answered: what is picked of the copy, and each alternate, is looked '
        'at in placement right before the claim, and the next host is tried.',
        'What is written in the milliseconds between that look and the claim; for an '
        'alternate, until a conductor uses it. Aggregates that are set with a '
        'microversion below 1.19, where the copy is read through the API.',
    ),
    'F43': Scenario(
        'A host is disabled, forced down, filled or deleted, or its compute falls '
        'silent, after the last look at its cell',
        'It is not answered: the rows of what is picked, and of each alternate, are '
        'read again right before the claim, and all is decided again where filters see '
        'something else. All cells are looked at before a request gets no host.',
        'What is written in the milliseconds between that look and the claim; for an '
        'alternate, until a conductor uses it.',
    ),
    'F44': Scenario(
        'Keystone is unavailable when the token has ended',
        'As for F14: requests wait for placement until there is a token.',
    ),
    'F45': Scenario(
        'The database of the only cell that has hosts for a request fails over',
        'The request waits until it answers, and is then decided from the start.',
        'As for F14.',
    ),
    'F46': Scenario(
        'Several schedulers, on any number of machines, boot or move members of one '
        'server group with affinity or anti-affinity at once',
        'The policy holds for all that are answered, and none is refused that need '
        'not be: each looks after its claim where the others hold resources, and one '
        'that sees a conflict undoes its claim and decides again.',
        'Members placed by nova-schedulers, which do not look; alternates, which '
        'computes refuse; a move that is reverted; members of a scheduler that was '
        'killed hold their hosts until recovery. Where the API database refuses, or '
        'hangs, which one request in five seconds waits for, the members are those '
        'that the request names.',
    ),
    'F47': Scenario(
        'A POST with the claims of several requests is lost, refused, hangs or fails, '
        'or its worker is killed',
        'Each request keeps its own outcome: a refused POST is split, and each finds '
        'out what became of its claim. A claim that no request was answered with is '
        'undone. A write that hangs holds up no other for more than two seconds.',
    ),
    'F48': Scenario(
        'SIGKILL of a shadow',
        'Its queues end with it, and nova-scheduler answers all calls. The next shadow '
        'begins where requests are: `novasched shadow report` counts the time between '
        'as one that was not tapped.',
        'Requests for which the choice of nova was not known yet have no record.',
    ),
    'F49': Scenario(
        'A shadow is paused, for a minute say, while requests come',
        'nova-scheduler answers all calls. The queues of the shadow hold the newest '
        '5,000 messages at most, none older than a minute. If some were dropped, the '
        'report counts the time as one that was not tapped.',
        'A shadow that is paused for longer than the heartbeat of the broker loses its '
        'connection, and its queues.',
    ),
    'F50': Scenario(
        'RabbitMQ is killed and started again beside a shadow',
        'The shadow taps again within 30 s, and the report counts the time as one that '
        'was not tapped.',
    ),
    'F51': Scenario(
        'A shadow starts before nova has made its exchange',
        'It waits, leaves no queue behind, and taps once the exchange is there; health '
        'says what is missing.',
    ),
    'F52': Scenario(
        'The collector of traces hangs, refuses them or is unavailable',
        'No request waits for it, and a stop for two seconds at most. The log says so '
        'once.',
        'Traces of that time: a worker holds 2,048 spans.',
    ),
    'F53': Scenario(
        'The disk of the history is full or not to be written',
        'Requests are served. The history goes on in a new file when the disk is well '
        'again, and says how many requests are missing. Metrics and health say so.',
        'The requests of the history that end meanwhile.',
    ),
    'F54': Scenario(
        'SIGKILL while the history is written',
        'All whole lines are read, and their decisions are checked.',
        'The requests of the last 0.2 s.',
    ),
}


class Marked(NamedTuple):
    """A test that stands for a scenario."""

    path: str
    test: str
    invariants: tuple[str, ...]

    def __str__(self):
        return f'{self.path}::{self.test}'


def marked(root):
    """Return the tests that stand for each scenario, by their marks in the source.

    Raises ValueError for a name that is none of a scenario or an invariant.
    """
    found = {name: [] for name in SCENARIOS}
    for path in sorted((pathlib.Path(root) / 'tests').rglob('test_*.py')):
        name = path.relative_to(root).as_posix()
        for test, arguments in _marks(ast.parse(path.read_text())):
            scenario, *invariants = arguments
            if scenario not in SCENARIOS or not set(invariants) <= INVARIANTS.keys():
                raise ValueError(f'{name}::{test} has an unknown mark: {arguments}')
            found[scenario].append(Marked(name, test, tuple(invariants)))
    return found


def _marks(tree):
    """Yield each test with the arguments of each of its marks."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f'{node.name}::' if isinstance(node, ast.ClassDef) else ''
        for function in inner:
            for decorator in getattr(function, 'decorator_list', ()):
                if ast.unparse(decorator).startswith(f'pytest.mark.{MARK}('):
                    arguments = [each.value for each in decorator.args]
                    yield prefix + function.name, arguments
