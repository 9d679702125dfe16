# SPDX-License-Identifier: Apache-2.0
"""Words that are left out of the code, and words that stand in every file."""

import ast
import collections
import inspect
import pathlib
import re

import pytest

UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX|raise NotImplementedError)\b')
PATCHING = re.compile(r'\b(monkeypatch|unittest\.mock|mocker)\b')
NO_SUBJECT = {'utils', 'helpers', 'common', 'misc'}
GONE = {
    'adoption', 'agreement', 'answers', 'asking', 'assuming', 'booking',
    'distilling', 'doors', 'dry', 'exchange', 'facts', 'fill', 'foreign', 'guests',
    'lanes', 'ledger', 'lending', 'look', 'meditation', 'merged', 'milestones',
    'mirrored', 'observed', 'observing', 'offers', 'old_names', 'overlay', 'pauses',
    'picks', 'question', 'refused', 'reported', 'room', 'scope', 'seat', 'serving',
    'shims', 'sight', 'silence', 'surviving', 'taking_back', 'undoing', 'upkeep',
    'watch',
}  # fmt: skip
"""Names that files had before they got the field's terms."""
KEPT = {'novasched/rpc/answers.py', 'novasched/observability/serving.py'}
MANNERED = re.compile(
    r'\b(lest|whoever|besides|homeless|twins)\b|[Mm]akes? no sense|\bwill do\b|'
    r'is asked no more'
)
"""Words that no manual of the field has."""
OF_STORIES = re.compile(r'\b([Nn]obody|told|anew)\b')
"""More of them, which pages and help texts do without."""
RIDDLES = re.compile(r'(Return (what|True)|Say whether|Tell whether)\b')
"""How no docstring begins: it names the thing, or is `Return whether ...`."""
VAGUE = re.compile(
    r'\b([Tt]h(at|ose) of|in vain|by and by|of late|of now|the matter)\b|'
    r'\b(None|True|False):'
)
"""What docstrings name or leave out instead; `None if ...` says when."""
LONGEST_SENTENCE, LONGEST_DOCSTRING = 25, 60
"""In words; a docstring of a module may be longer."""
TERM = re.compile(r'``[^`]*``')
END_OF_SENTENCE = re.compile(r"""(?<=[.!?])['")]*\s+""")
NO_PROSE = re.compile(r'^\s*([-*]|\d+\.) |^ {2}|\|', re.MULTILINE)
"""In a paragraph that is a list, a block of code or a table."""
RIDDLE_NAMES = re.compile(r'^test (what|who)\b')
"""How no test is named: its name says the promise."""
HERE = pathlib.Path(__file__).name


def files_with(pattern, files):
    return [
        f'{path}: {found.group()}'
        for path, text in files.items()
        if path.name != HERE and (found := pattern.search(text))
    ]


def test_nothing_is_left_unfinished(python_files):
    assert files_with(UNFINISHED, python_files) == []


def test_unit_tests_patch_nothing(python_files):
    unit = {
        path: text
        for path, text in python_files.items()
        if path.parts[:2] == ('tests', 'unit')
    }
    assert files_with(PATCHING, unit) == []


def test_every_file_is_named_after_a_subject(python_files):
    assert [path for path in python_files if path.stem in NO_SUBJECT] == []


def test_prose_is_plain(package_files):
    assert files_with(MANNERED, package_files) == []


@pytest.mark.parametrize('words', [MANNERED, OF_STORIES])
def test_pages_are_plain(root, words):
    pages = [root / 'README.md', *(root / 'docs').rglob('*.md')]
    pages += [*(root / 'docs/man').iterdir(), *(root / 'lab/docs/man').iterdir()]
    texts = {path.relative_to(root): path.read_text() for path in pages}
    assert files_with(words, texts) == []


def helps(text):
    """Yield line and text of the helps of options of oslo.config and of arguments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == 'help':
            parts = [
                part.value
                for part in ast.walk(node.value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            yield node.value.lineno, inspect.cleandoc(' '.join(parts))


def test_help_is_plain(package_files):
    found = {
        path: ' '.join(said for _, said in helps(text))
        for path, text in package_files.items()
    }
    assert any(found.values())
    assert files_with(OF_STORIES, found) == []


def docstrings(text):
    """Yield line, whether it is of a module, and text of each; of fields, too."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        for number, each in enumerate(node.body if isinstance(node, owners) else ()):
            match each:
                case ast.Expr(value=ast.Constant(value=str(said))):
                    of_module = isinstance(node, ast.Module) and number == 0
                    yield each.lineno, of_module, TERM.sub('x', inspect.cleandoc(said))


def sentences(docstring):
    """Yield the sentences of its prose; a colon or a semicolon ends none."""
    for paragraph in re.split(r'\n\s*\n', docstring):
        if not NO_PROSE.search(paragraph):
            yield from END_OF_SENTENCE.split(paragraph.strip())


def faulty_sentences(prose):
    """Yield the sentences that are too long, and words that are vague."""
    for sentence in sentences(prose):
        if len(sentence.split()) > LONGEST_SENTENCE:
            yield f'{len(sentence.split())} words: {sentence}'
        if found := VAGUE.search(sentence):
            yield found.group()


def wordy(text):
    """Yield line and words of sentences and docstrings that are too long or vague."""
    for line, of_module, docstring in docstrings(text):
        if not of_module and len(docstring.split()) > LONGEST_DOCSTRING:
            yield line, f'{len(docstring.split())} words'
        yield from ((line, fault) for fault in faulty_sentences(docstring))


def wordy_helps(text):
    """Yield line and words of sentences in helps that are too long or vague."""
    for line, said in helps(text):
        for fault in faulty_sentences(TERM.sub('x', said)):
            yield line, fault


def test_docstrings_are_short_and_plain(package_files):
    found = [
        f'{path}:{line}: {said}'
        for path, text in package_files.items()
        for line, said in wordy(text)
    ]
    assert found == []


def test_helps_are_short_and_plain(package_files):
    found = [
        f'{path}:{line}: {said}'
        for path, text in package_files.items()
        for line, said in wordy_helps(text)
    ]
    assert found == []


WORDS = ' '.join(['word'] * LONGEST_SENTENCE)


@pytest.mark.parametrize(
    ('docstring', 'is_wordy'),
    [
        (f'{WORDS}.', False),
        (f'{WORDS} more.', True),
        (f'{WORDS}: more.', True),
        (f'{WORDS}; more.', True),
        (f'{WORDS}. {WORDS}.', False),
        (f'{WORDS[5:]} ``one long term``.', False),
        (f'Title.\n\n- {WORDS} more\n- item', False),
        (f'Title\n\n    Code::\n\n        {WORDS} more', False),
        (f'Title.\n\n{WORDS}.\n\n{WORDS}.\n\n{WORDS}.', True),
        ('Return a host; None: there is none.', True),
        ('Return the name, else that of the node.', True),
    ],
)
def test_long_or_vague_docstring_is_found(docstring, is_wordy):
    text = f'def function():\n    """{docstring}"""'
    assert bool([*wordy(text)]) is is_wordy


@pytest.mark.parametrize(
    ('value', 'is_wordy'),
    [
        (f"'{WORDS}.'", False),
        (f"'{WORDS} ' 'more.'", True),
        (f"f'{WORDS} {{name}} more.'", True),
        ("'those of one host'", True),
        (f"'{WORDS}. ' + choices()", False),
    ],
)
def test_long_or_vague_help_is_found(value, is_wordy):
    assert bool([*wordy_helps(f'Option(help={value})')]) is is_wordy


def test_only_modules_may_have_long_docstrings():
    text = '\n\n'.join([f'{WORDS}.'] * 3)
    assert not [*wordy(f'"""{text}"""')]
    assert [*wordy(f'limit = 1\n"""{text}"""')]


def test_docstrings_name_the_thing(package_files):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    riddles = [
        f'{path}:{node.lineno}'
        for path, text in package_files.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds) and RIDDLES.match(ast.get_docstring(node) or '')
    ]
    assert riddles == []


def odd_test_names(text):
    """Yield the names of tests that are riddles, or have words that no manual has."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith('test_'):
            words = node.name.replace('_', ' ')
            if any(
                p.search(words) for p in (RIDDLE_NAMES, MANNERED, OF_STORIES, VAGUE)
            ):
                yield node.name


def test_test_names_say_the_promise(python_files):
    found = [
        f'{path}: {name}'
        for path, text in python_files.items()
        for name in odd_test_names(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ('name', 'is_odd'),
    [
        ('test_what_is_lost_is_claimed_again', True),
        ('test_who_waits_is_answered', True),
        ('test_nobody_waits', True),
        ('test_the_name_is_that_of_the_node', True),
        ('test_whole_hosts_are_claimed', False),
        ('test_lost_claim_is_made_again', False),
    ],
)
def test_odd_test_name_is_found(name, is_odd):
    assert [*odd_test_names(f'def {name}(): ...')] == ([name] if is_odd else [])


def test_files_have_the_names_of_the_field(package_files):
    found = {
        str(path)
        for path in package_files
        if path.parts[0] == 'novasched' and GONE.intersection([*path.parts, path.stem])
    }
    assert found == KEPT


def test_every_file_starts_with_the_licence(python_files):
    line = '# SPDX-License-Identifier: Apache-2.0\n'
    without = [path for path, text in python_files.items() if not text.startswith(line)]
    assert [path for path in without if python_files[path]] == []


def test_every_module_says_what_it_is(package_files):
    silent = [
        path
        for path, text in package_files.items()
        if text.count('\n') > 1 and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


NOVAS = {'Aggregate', 'FilterScheduler', 'NoValidHost', 'Scheduler', 'Service'}
"""Classes that bear nova's name on the wire, or for plugins of nova."""


def test_a_class_name_stands_for_one_class(package_files):
    names = collections.Counter(
        node.name.lstrip('_')
        for path, text in package_files.items()
        if path.parts[0] == 'novasched'
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} <= NOVAS
