# SPDX-License-Identifier: Apache-2.0
"""Calls of nova's modules that plugins make; they run on both sides, as they stand."""

import importlib

MODULES = {
    'az': 'nova.availability_zones',
    'context': 'nova.context',
    'exception': 'nova.exception',
    'fields': 'nova.objects.fields',
    'filter_utils': 'nova.scheduler.filters.utils',
    'i18n': 'nova.i18n',
    'objects': 'nova.objects',
    'utils': 'nova.utils',
    'scheduler_utils': 'nova.scheduler.utils',
    'weights': 'nova.weights',
}
CALLS = """
az.get_host_availability_zone(admin, 'h1')
az.get_host_availability_zone(admin, 'h2')
az.get_host_availability_zone(admin, 'h3')
az.get_instance_availability_zone(admin, {'availability_zone': 'z'})
az.get_instance_availability_zone(admin, {})
az.update_host_availability_zone_cache(admin, 'h1')
az.reset_cache()
admin.is_admin
context.get_admin_context('yes').read_deleted
context.RequestContext('u', 'p').elevated('yes').read_deleted
context.RequestContext('u', 'p').elevated().is_admin
str(exception.NotFound())
str(exception.Invalid())
str(exception.InvalidInput(reason='x'))
str(exception.NotFound('text'))
exception.HostNotFound(host='h1').kwargs
exception.NotFound().code
filter_utils.aggregate_values_from_key(host, 'ssd')
filter_utils.aggregate_metadata_get_by_host(host)
filter_utils.aggregate_metadata_get_by_host(host, 'nope')
filter_utils.instance_uuids_overlap(host, list(host.instances))
filter_utils.validate_num_values({'1', '2'}, 7)
i18n.translate('a', 'de')
i18n.DOMAIN
objects.Flavor(vcpus=2)['vcpus']
objects.InstanceGroup(policy='affinity', members=['a']).get('members')
objects.MonitorMetricList.from_json(None).to_list()
scheduler_utils.get_weight_multiplier(host, 'nope', 2.0)
scheduler_utils.parse_options(['a=1', 'b = 2', 'c', 'd=x'])
scheduler_utils.parse_options(['a:1', 'b:x'], sep=':', converter=int)
scheduler_utils.request_is_rebuild(None)
scheduler_utils.request_is_rebuild(objects.RequestSpec())
scheduler_utils.request_is_rebuild(objects.RequestSpec(scheduler_hints=REBUILD))
scheduler_utils.validate_filter('ComputeFilter')
scheduler_utils.validate_filter('Nope')
scheduler_utils.validate_weigher('RAMWeigher')
scheduler_utils.validate_weigher('nova.scheduler.weights.ram.RAMWeigher')
utils.instance_meta({'metadata': {'a': 'b'}})
utils.instance_meta({'metadata': [{'key': 'a', 'value': 'b'}]})
utils.metadata_to_dict([DELETED])
utils.metadata_to_dict([DELETED], include_deleted=True)
weights.WeighedObject('o', 1.5).weight
list(weights.normalize([1, 2, 3]))
callable(utils.synchronized('x'))
""".strip().splitlines()
WORDS = (
    'Architecture',
    'CPUAllocationPolicy',
    'CPUEmulatorThreadsPolicy',
    'CPUThreadAllocationPolicy',
    'HVType',
    'PCINUMAAffinityPolicy',
    'VMMode',
)


def call_each(seen, host, exceptions):
    """Describe what each call gives, each word, and each exception of these names."""
    names = {name: importlib.import_module(path) for name, path in MODULES.items()}
    names['admin'] = names['context'].get_admin_context()
    names['host'] = host
    names['REBUILD'] = {'_nova_check_type': ['rebuild']}
    names['DELETED'] = {'key': 'a', 'value': 'b', 'deleted': True}
    for call in CALLS:
        seen._put('calls:', call, lambda c=call: eval(c, dict(names)))
    for word in WORDS:
        values = vars(getattr(names['fields'], word)).items()
        known = {n: v for n, v in values if n.isupper() and n != 'ALL'}
        seen._put('words:', word, lambda k=known: k)
    for name in exceptions:
        found = getattr(names['exception'], name)
        line = [each.__name__ for each in found.__mro__]
        seen.found[f'exceptions:{name}'] = [line, getattr(found, 'code', None)]
