# SPDX-License-Identifier: Apache-2.0
"""novasched delete."""

import pytest

from lab.tests.unit.commands.commands import run
from novasched import errors
from novasched.objects.context import RequestContext
from novasched_lab.api import boot
from novasched_lab.commands.servers import DeleteServers
from tests.support.tables.cases import cases

MINE = ('--project-id', 'project')


def delete(made, *words, **given):
    """Run the command for the project of the test."""
    return run(DeleteServers, made.api_context, *MINE, *words, **given)


def of_project(made, project, name='vm'):
    """Boot a server of a project; return its uuid."""
    context = RequestContext(user_id='user', project_id=project, overwrite=False)
    (uuid,) = boot.boot(made.api_context, context, made.order(name))
    return uuid


def test_servers_are_deleted_once_each(made):
    (uuid,) = made.boot('asked')
    code, (found,), _ = delete(made, 'asked', uuid, '--yes')
    assert (code, found['ID'], found['Outcome']) == (0, uuid, 'deleted')


def test_a_host_is_waited_for(made):
    uuid = made.running()
    made.computes._tell = lambda *told: made.cell1.destroy(uuid)
    code, (found,), said = delete(made, '--all', '--yes')
    assert (code, found['Outcome']) == (0, 'deleted')
    assert said == 'To be deleted: 1 of project project.\n'
    assert made.api.with_builds() == []


@cases(
    'word, expected', ('not at all', '--no-wait', 0), ('not for ever', '--timeout=0', 1)
)
def test_a_host_that_is_away_is_not_waited_for(made, word, expected):
    made.running('vm')
    code, (found,), said = delete(made, 'vm', '--yes', word)
    assert (code, found['Outcome']) == (expected, 'deleting')
    assert ('novasched delete --force' in said) == bool(expected)


@pytest.mark.parametrize('words', [(), ('--all', 'vm')])
def test_either_some_are_named_or_all(made, words):
    with pytest.raises(errors.OptionError, match='Name some, or --all'):
        delete(made, *words, '--yes')


@pytest.mark.parametrize('words', [('--all',), ('vm',)], ids=['all', 'a named one'])
@cases(
    'typed, code, left',
    ('no terminal', None, 2, 1),
    ('the end of the input', '', 2, 1),
    ('another word', 'y\n', 2, 1),
    ('yes', 'yes\n', 0, 0),
)
def test_a_yes_is_needed(made, words, typed, code, left):
    made.boot('vm')
    found, _, said = delete(made, *words, typed=typed)
    assert (found, len(made.servers.all())) == (code, left)
    assert said.startswith('To be deleted: 1 of project project.\n')
    assert ('Nothing is deleted: give --yes' in said) == bool(left)
    assert ('Type yes' in said) == (typed is not None)


def test_delete_all_deletes_servers_of_the_project_only(made):
    own, other = of_project(made, 'project'), of_project(made, 'other')
    code, (found,), said = delete(made, '--all', '--yes')
    assert (code, found['ID']) == (0, own)
    assert said == 'To be deleted: 1 of project project.\n'
    assert [each.uuid for each in made.servers.all()] == [other]
    assert delete(made, '--all', '--yes')[1:] == (
        [],
        'There are no servers of project project.\n',
    )


@pytest.mark.parametrize('by', ['uuid', 'name'])
def test_a_named_server_of_another_project_is_left_alone(made, by):
    other = of_project(made, 'other')
    word = other if by == 'uuid' else 'vm'
    with pytest.raises(errors.OptionError, match='is of project other, not project'):
        delete(made, word, '--yes')
    assert [each.uuid for each in made.servers.all()] == [other]
    own = of_project(made, 'project')
    assert delete(made, 'vm', '--yes')[1][0]['ID'] == own
    assert delete(made, word, '--yes', '--all-projects')[1][0]['ID'] == other


def test_all_of_all_projects_are_deleted_when_that_is_asked_for(made):
    for project in ('project', 'other', 'other'):
        of_project(made, project)
    words = ('--all', '--all-projects', '--yes')
    _, found, said = delete(made, *words)
    assert len(found) == 3
    assert said == 'To be deleted: 2 of project other, 1 of project project.\n'
    assert made.servers.all() == []
    assert delete(made, *words)[2] == 'There are no servers.\n'


def test_a_dry_run_deletes_nothing(made):
    uuid = of_project(made, 'project')
    code, (found,), said = delete(made, '--all', '--dry-run')
    assert (code, found['ID'], found['Outcome']) == (0, uuid, 'would be deleted')
    assert said == 'To be deleted: 1 of project project.\n'
    assert [each.uuid for each in made.servers.all()] == [uuid]
