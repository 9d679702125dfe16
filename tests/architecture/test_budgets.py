# SPDX-License-Identifier: Apache-2.0
"""docs/start-to-finish.md has the table of retry budgets as the code has it."""

import math
import re

from novasched.claiming.request import LIMITS


def row(outcome, limit):
    most = '-' if limit.most == math.inf else str(limit.most)
    if limit.pool is not None:
        most += f' ({limit.pool.name.lower()})'
    return outcome.value, most, limit.scope.name.lower(), limit.again.name.lower()


def test_the_page_has_the_limits_of_the_code(root):
    page = (root / 'docs' / 'start-to-finish.md').read_text()
    table = page.partition('| reason | most |')[2].partition('\n\n')[0]
    found = re.findall(r'^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$', table, re.MULTILINE)
    assert found == [row(outcome, limit) for outcome, limit in LIMITS.items()]
