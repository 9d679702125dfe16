# SPDX-License-Identifier: Apache-2.0
"""Functions that plugins import; test_surface compares the others with nova's."""

import importlib
import os
import sys

import pytest

from novasched import errors
from novasched.compat import nova_modules
from novasched.compat.nova_functions import build_request_spec
from novasched.objects.base import NovaObject
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from tests.support.clouds.configuration import make_conf


def test_a_request_in_the_old_form_is_made_of_an_instance():
    flavor = Flavor(name='small', vcpus=2)
    made = build_request_spec(None, [Instance(uuid='u', vcpus=2, flavor=flavor)])
    assert made == {
        'image': {},
        'instance_properties': {'uuid': 'u', 'vcpus': 2, 'flavor': flavor},
        'instance_type': flavor,
        'num_instances': 1,
    }


@pytest.fixture
def lent():
    finders, environ = list(sys.meta_path), dict(os.environ)
    nova_modules.install(object(), list, list)
    yield importlib.import_module
    sys.meta_path[:] = finders
    os.environ.clear()
    os.environ.update(environ)
    for name in [each for each in sys.modules if each.partition('.')[0] == 'nova']:
        del sys.modules[name]


def test_objects_are_ours(lent):
    objects = lent('nova.objects')
    assert objects.RequestSpec is RequestSpec
    assert lent('nova.objects.request_spec').RequestSpec is RequestSpec
    assert issubclass(objects.ComputeNode, NovaObject)


def test_function_that_needs_a_database_names_use_nova(lent):
    objects = lent('nova.objects')
    with pytest.raises(AttributeError, match=r'InstanceList\.get_by_host: .*use_nova'):
        _ = objects.InstanceList.get_by_host
    with pytest.raises(AttributeError, match=r'InstanceGroup\.get_by_uuid: .*use_nova'):
        _ = objects.InstanceGroup().get_by_uuid
    assert not hasattr(objects.Aggregate, 'get_by_id')


def test_missing_function_names_its_replacement(lent):
    with pytest.raises(AttributeError, match='claim_resources: novasched claims'):
        _ = lent('nova.scheduler.utils').claim_resources


def test_nova_that_is_wanted_and_not_installed_is_an_error(lent):
    conf = make_conf(novasched={'plugins_use_nova': True})
    with pytest.raises(errors.OptionError, match='Install nova in this environment'):
        nova_modules.install(conf, list, list)
