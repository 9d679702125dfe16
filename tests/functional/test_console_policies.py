# SPDX-License-Identifier: Apache-2.0
"""Policy files of the console: it starts with those alone that it understands."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.console import program
from novasched.console.policies import RULE, enforcer_of
from tests.support.tables import hostile
from tests.support.tables.cases import cases

NOBODY = {'roles': [], 'user_id': 'u', 'project_id': 'p', 'is_admin_project': True}
A, B = {**NOBODY, 'roles': ['a']}, {**NOBODY, 'roles': ['A', 'b']}
READER = {**NOBODY, 'roles': ['reader'], 'system_scope': 'all'}
FILE, DIRECTORIES = '[oslo_policy] policy_file: ', '[oslo_policy] policy_dirs: '


@pytest.fixture
def build(tmp_path):
    """Return what builds the policy of ``rules.yaml`` and of the directory ``more``."""
    conf = tmp_path / 'a.conf'

    def built(text=None, options='policy_file = rules.yaml\n'):
        conf.write_text(f'[oslo_policy]\n{options}')
        if text is not None:
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / 'rules.yaml').write_bytes(content)
        given = program.configure([f'--config-file={conf}', f'--config-dir={tmp_path}'])
        return enforcer_of(given)

    return built


def may_look(enforcer, who):
    return bool(enforcer.authorize(RULE, {}, dict(who)))


@cases(
    ('text', 'said'),
    ('no YAML', 'a: [', 'cannot be read: '),
    ('no UTF-8', b'\xff', 'cannot be read: '),
    ('no character', '"\\UFFFFFFFF": a', 'cannot be read: '),
    ('too many levels', '[' * 3000, 'nested too deep'),
    ('a list', '- a', 'says no names and rules'),
    ('an empty list', '[]', 'says no names and rules'),
    ('a text', 'a', 'says no names and rules'),
    ('twice', f'{RULE}: role:a\n{RULE}: role:a', 'is there twice'),
    ('a typo', '"novasched:raed": "role:a"', 'mean novasched:read'),
    ('no rule of ours', '"NOVASCHED:list": "role:a"', 'the only one'),
    ('alike', 'Novasched-Read: "role:a"', 'mean novasched:read'),
    *(
        (rule[:40], f'"{RULE}": {rule}', said)
        for rule, said in (
            ('', 'is empty'),
            ('""', 'is empty'),
            ('[]', 'is empty'),
            ('[[]]', 'be understood'),
            ('1', 'be understood'),
            ('{"role:a": x}', 'be understood'),
            ('null', 'be understood: null'),
            ('[[["role:a"]]]', 'be understood'),
            ('[{"role:a": x}]', 'be understood'),
            ('&a [*a]', 'nested too deep'),
            (f'"{"not " * 5000}role:a"', 'nested too deep'),
            ('"role:a ro role:b"', 'be understood'),
            ('"role:a or not ro"', 'be understood'),
            ('"role:a and not !b"', 'be understood'),
            ('["role:a", ["and"]]', 'be understood'),
            ('"role:a and not roel:b"', 'asks for roel, which no user has'),
            ('"role:a and not http://b"', 'asks another server (http://b)'),
            ('"rule:x"\nx: role:a\nx: role:b', 'x is there twice'),
            ('"role:a or \'b\':b"', "asks for 'b', which no user has"),
            ('"not rule:barred"', 'refers to barred, which is not there'),
            ('"rule:viewr"\n"default": ""', 'refers to viewr, which is not there'),
            ('"rule:some"\n"some": ""', 'some is empty'),
            ('"not rule:no"\n"no": "role:a ro b"', 'no is empty or cannot be und'),
            ('"rule:some"\n"some": "not rule:some"', 'some refers to itself'),
            ('"role:a and not role:"', 'compares role with nothing'),
            ('["role: a"]', 'compares role with nothing, or with blanks'),
            ('"role:a and not user_id:None"', 'compares user_id with nothing'),
            ('"role:a and not project_id:%(project_id)s"', 'but no target'),
            ('"role:100%"', 'but no target'),
            ('"role:a or not role:b"', 'allows users who have no role'),
            ('"is_admin_project:True"', 'allows users who have no role'),
            ('"is_admin_project:False"', 'allows users who have no role'),
        )
    ),
)
def test_malformed_policy_file_ends_the_start(build, tmp_path, text, said):
    with pytest.raises(errors.OptionError) as raised:
        build(text)
    assert str(raised.value).startswith(FILE)
    assert f'{tmp_path}/rules.yaml' in raised.value.problem
    assert said in raised.value.problem


@pytest.mark.parametrize(
    ('options', 'option', 'said'),
    [
        ('policy_file = none.yaml', FILE, 'none.yaml is missing'),
        ('policy_file = {}/none.yaml', FILE, '{}/none.yaml is missing'),
        ('policy_file = more', FILE, '{}/more cannot be read: '),
        ('policy_dirs = none', DIRECTORIES, 'none is missing'),
        ('policy_dirs = a.conf', DIRECTORIES, '{}/a.conf cannot be read: '),
        ('policy_dirs = more', DIRECTORIES, '{}/more/gone.yaml cannot be read: '),
    ],
)
def test_unreadable_policy_file_ends_the_start(build, tmp_path, options, option, said):
    (tmp_path / 'more').mkdir()
    (tmp_path / 'more' / 'gone.yaml').symlink_to(tmp_path / 'none')
    with pytest.raises(errors.OptionError) as raised:
        build(options=options.format(tmp_path))
    assert str(raised.value).startswith(option + said.format(tmp_path))


def test_a_directory_by_the_default_name_keeps_from_starting(build, tmp_path):
    (tmp_path / 'policy.yaml').mkdir()
    with pytest.raises(errors.OptionError, match=r'policy\.yaml cannot be read'):
        build(options='')


@cases(
    ('text', 'allowed'),
    ('no rules', '', [READER]),
    ('rules of others', '"nova:a": !!int ""\nb: [[1]]', [READER]),
    ('odd names of others', '1: a\nyes: b\nnull: c\n? [a]\n: b\na: b\na: b', [READER]),
    ('merged in', f'x: &x {{"{RULE}": "role:b", y: z}}\n<<: *x', [B]),
    *(
        (rule, f'"{RULE}": {rule}', allowed)
        for rule, allowed in (
            ('"@"', [NOBODY, A, B, READER]),
            ('"@ and not role:b"', [NOBODY, A, READER]),
            ('["@"]', [NOBODY, A, B, READER]),
            ('"!"', []),
            ('"(!)"', []),
            ('"( role:a or roles:a )"', [A, B]),
            ('"(role:a AND (not role:b))"', [A]),
            ('"role:%%"', []),
            ('[["role:a", "role:b"], [], "role:reader"]', [B, READER]),
            ('"rule:some and not user_id:x"\nsome: "role:b"', [B]),
        )
    ),
)
def test_valid_policy_decides_access(build, text, allowed):
    enforcer = build(text)
    for who in (NOBODY, A, B, READER):
        assert may_look(enforcer, who) == (who in allowed), who


def test_files_of_directories_come_after_the_file_and_none_is_read_again(
    build, tmp_path
):
    (tmp_path / 'more' / 'inside').mkdir(parents=True)
    (tmp_path / 'more' / '.hidden').write_text('- a')
    for name in (4, 9, 1, 7, 3):
        role = 'b' if name == 9 else 'reader'
        (tmp_path / 'more' / str(name)).write_text(f'"{RULE}": "role:{role}"')
    options = 'policy_file = rules.yaml\npolicy_dirs = more\n'
    enforcer = build(f'"{RULE}": "@"', options)
    (tmp_path / 'more' / '9').unlink()
    assert [may_look(enforcer, who) for who in (A, B, READER)] == [False, True, False]


words = st.one_of(
    st.sampled_from(
        [
            *('and', 'or', 'not', 'NOT', '(', ')', '((', '@', '!', '!a', "'a'"),
            *('role:a', '(role:b', 'role:b)', 'role:', 'role:100%', 'role:%%'),
            *('user_id:x', 'user_id:', 'user_id:None', 'project_id:None', 'roles:a'),
            *('project_id:%(project_id)s', 'is_admin_project:True', 'domain_id:None'),
            *('rule:a', 'rule:b', f'rule:{RULE}', 'http://127.0.0.1:1', "'a':a", '1:1'),
            *('is_admin_project:False', 'system_scope:all', 'a:b', ':', '%(x)s:a'),
        ]
    ),
    st.text(max_size=6),
)
rules = st.one_of(
    st.lists(words, max_size=7).map(' '.join),
    st.lists(words | st.lists(words, max_size=3), max_size=3),
    hostile.texts | st.none() | st.integers() | st.dictionaries(words, words),
)
names = st.sampled_from([RULE, RULE, 'a', 'b', 'default']) | words
files = st.one_of(
    st.dictionaries(names, rules, max_size=4).map(json.dumps),
    st.builds(f'"{RULE}": {{}}'.format, words | hostile.texts),
    st.text(),
    st.binary(),
)


@pytest.fixture
def hold(build):
    """Return a check of one file."""

    def held(text):
        try:
            enforcer = build(text)
        except errors.OptionError:
            return
        is_open = '@' in str(text)
        for who in (NOBODY, {**NOBODY, 'project_id': None, 'is_admin_project': False}):
            assert not may_look(enforcer, who) or is_open

    return held


def test_random_policy_file_never_admits_an_unauthorized_user(hold):
    @given(files)
    @hostile.examples(100)
    def each(text):
        hold(text)

    each()
