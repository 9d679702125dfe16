# SPDX-License-Identifier: Apache-2.0
"""What an answer does not have in it is said."""

from novasched.inspection.texts.missing import missing_parts
from tests.support.tables.cases import cases


@cases(
    'answer, sentences',
    ('all is there', {}, []),
    (
        'schedulers',
        {'unanswered': ['one'], 'without_log': ['two']},
        [
            'one did not answer; decisions that it made are not seen',
            'two runs nova-scheduler, which keeps no decisions',
        ],
    ),
    (
        'cells with numbers of hosts',
        {'cells': {'cell3': 96, 'cell4': 1}},
        [
            'cell3 does not answer; its 96 hosts are not in this',
            'cell4 does not answer; its 1 host is not in this',
        ],
    ),
    (
        'a cell that was there at first',
        {'cells': ['cell3', 'cell4'], 'stopped': ['cell4']},
        [
            'cell3 does not answer; its hosts are not in this',
            'cell4 stopped answering; its servers are not in this',
        ],
    ),
)
def test_missing_parts_of_an_answer_are_named(answer, sentences):
    assert list(missing_parts(**answer)) == sentences
