# SPDX-License-Identifier: Apache-2.0
"""What packaging/ says fits the tree; tests/live/test_packages.py builds packages."""

import configparser
import json
import re
import shutil
import subprocess

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.test_documents import names
from tests.support.suite.documented import check_command, commands_in

EXTRAS = ('console', 'memcached', 'mysql', 'postgres')


@pytest.fixture(scope='module')
def files(root):
    return root / 'packaging'


def test_locked_versions_are_those_that_setup_allows(root, files):
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(root / 'setup.cfg')
    lines = setup['options']['install_requires'].splitlines()
    for extra in EXTRAS:
        lines += setup['options.extras_require'][extra].splitlines()
    text = (files / 'requirements.txt').read_text()
    locked = dict(
        re.findall(r'^([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}$', text, re.M)
    )
    locked = {canonicalize_name(name): version for name, version in locked.items()}
    assert len(locked) == len(text.splitlines()) - 1
    for wanted in map(Requirement, filter(None, lines)):
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), wanted


def test_versions_are_the_one_of_setup(root, files):
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(root / 'setup.cfg')
    version = setup['metadata']['version']
    changelog = (files / 'debian/changelog').read_text()
    # Debian sorts a candidate before the release by its tilde.
    assert changelog.startswith(f'novasched ({version.replace("rc", "~rc")}-')
    helm = yaml.safe_load((files / 'openstack-helm/values.yaml').read_text())
    assert helm['images']['tags']['nova_scheduler'].endswith(f':{version}')


@pytest.mark.parametrize(
    'name',
    ['debian/novasched.conf', 'image/novasched.conf', 'kolla/nova-scheduler.conf'],
)
def test_options_of_a_package_exist(files, name):
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    parser.read(files / name)
    said = {(group, option) for group in parser.sections() for option in parser[group]}
    assert said
    assert said - names() == set()


def test_files_of_deployment_tools_start_programs_of_ours(files):
    kolla = json.loads((files / 'kolla/config.json').read_text())
    ansible = files / 'openstack-ansible'
    variables = yaml.safe_load((ansible / 'user_variables_novasched.yml').read_text())
    (play,) = yaml.safe_load((ansible / 'novasched.yml').read_text())
    started = (
        kolla['command'],
        variables['nova_scheduler_init_overrides']['Service']['ExecStart'],
        ' '.join(play['tasks'][-1]['ansible.builtin.command']['argv']),
    )
    for command in started:
        (words,) = commands_in(command)
        check_command(words)


def test_overrides_have_the_keys_of_their_projects(files):
    kolla = yaml.safe_load((files / 'kolla/globals.yml').read_text())
    assert all(key.startswith('nova_scheduler_') for key in kolla)
    helm = yaml.safe_load((files / 'openstack-helm/values.yaml').read_text())
    assert set(helm) == {'images', 'pod'}
    assert set(helm['images']['tags']) == {'nova_scheduler'}


def test_plugin_of_devstack_is_where_devstack_looks(root):
    for name in ('plugin.sh', 'settings'):
        subprocess.run(['bash', '-n', root / 'devstack' / name], check=True)


def test_scripts_pass_shellcheck(root, files):
    scripts = [root / 'tools/package', root / 'tools/image']
    scripts += [files / 'devstack/plugin.sh', files / 'devstack/settings']
    scripts += (files / 'debian').glob('*.postrm')
    if shutil.which('shellcheck'):
        subprocess.run(['shellcheck', *scripts], check=True)
