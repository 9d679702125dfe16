# SPDX-License-Identifier: Apache-2.0
"""Every class has the version and the fields that nova gives it."""

import json
import pathlib

import pytest
from oslo_versionedobjects import fields as ovo

import novasched.objects  # noqa: F401
from novasched.objects import base, fields

SCHEMA = json.loads(
    (pathlib.Path(__file__).parents[2] / 'samples/objects-schema.json').read_text()
)
# Objects of an instance that are passed on as they came, and what no message carries.
NOT_READ = {
    'EC2Ids',
    'HostMapping',
    'InstanceDeviceMetadata',
    'InstanceFault',
    'KeyPairList',
    'MigrationContext',
    'MonitorMetric',
    'MonitorMetricList',
    'PciDevice',
    'PciDeviceList',
    'Resource',
    'ResourceList',
    'Service',
    'ServiceList',
    'TagList',
    'TrustedCerts',
    'VirtCPUModel',
}
NAMES = sorted(
    name for name in SCHEMA if not name.endswith('Payload') and name not in NOT_READ
)
WORDS = {
    ovo.String: 'string',
    fields.Integer: 'int',
    ovo.Float: 'float',
    ovo.Boolean: 'bool',
    ovo.FlexibleBoolean: 'flexbool',
    ovo.DateTime: 'datetime',
    ovo.IPAddress: 'ip',
    ovo.IPV4Address: 'ipv4',
    ovo.IPV6Address: 'ipv6',
    ovo.VersionPredicate: 'version-predicate',
    ovo.Enum: 'enum',
    fields.FoldedEnum: 'enum',
    fields.UUID: 'uuid',
}


def word(kind):
    if isinstance(kind, ovo.Object):
        return f'object({kind._obj_name})'
    if isinstance(kind, ovo.CompoundFieldType):
        element = kind._element_type
        name = type(kind).__name__.lower()
        return f'{name}<{word(element._type)}{"?" if element.nullable else ""}>'
    return WORDS.get(type(kind), type(kind).__name__)


def passed_on(field):
    """A field of the schema, its type `anything` where we do not read it."""
    kind = field['type']
    read = kind != 'NetworkModel' and kind not in {f'object({n})' for n in NOT_READ}
    return field if read else field | {'type': 'FieldType'}


def described(field):
    kind = field._type
    found = {'type': word(kind), 'nullable': field.nullable}
    if field.default is not ovo.UnspecifiedDefault:
        default = field.default
        found['default'] = sorted(default) if isinstance(default, set) else default
    if field.read_only:
        found['read_only'] = True
    if isinstance(kind, ovo.Enum):
        found['values'] = list(kind.valid_values)
    return found


@pytest.mark.parametrize('name', NAMES)
def test_class_is_what_the_schema_says(name):
    known = base.NovaObjectRegistry.obj_classes()[name]
    assert [cls.VERSION for cls in known] == [SCHEMA[name]['version']]
    found = {
        field_name: described(field) for field_name, field in known[0].fields.items()
    }
    assert found == {
        field_name: passed_on(field)
        for field_name, field in SCHEMA[name]['fields'].items()
    }


@pytest.mark.parametrize('name', NAMES)
def test_annotations_name_every_field_and_unset_defaults_nothing_else(name):
    cls = base.NovaObjectRegistry.obj_classes()[name][0]
    annotated = {
        field
        for parent in cls.__mro__
        for field in vars(parent).get('__annotations__', ())
    }
    assert set(cls.UNSET_DEFAULTS) <= set(cls.fields) <= annotated


@pytest.mark.parametrize('name', ['RequestSpec', 'Selection', 'Aggregate'])
def test_versions_of_a_tree_of_classes(sample, name):
    assert base.versions_of(name) == sample('objects-version-manifests')[name]
