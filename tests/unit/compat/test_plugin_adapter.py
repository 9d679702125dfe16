# SPDX-License-Identifier: Apache-2.0
"""Classes for nova, made into filters and weighers."""

import pytest

from novasched import errors
from novasched.compat import plugin_adapter
from novasched.external.attestation import TrustedFilter
from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.weighers import BaseHostWeigher, Weigher
from novasched.scheduler.weighers.metrics import MetricsWeigher
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

HERE = __name__
METRICS = (
    '[{"name": "cpu.frequency", "value": 3, "source": "s", '
    '"timestamp": "2026-01-01T00:00:00"}]'
)


class Passes:
    """Knows nothing of us."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host == 'h2'


class FiltersAll:
    def filter_all(self, filter_obj_list, spec_obj):
        return filter_obj_list[:1]


class FiltersOne:
    def _filter_one(self, obj, spec_obj):
        return obj.host != 'h1'


class OnlyFirst(Passes):
    def run_filter_for_index(self, index):
        return index == 0


class Weighs:
    minval = 0

    def __init__(self):
        self.multiplier = 5

    def _weigh_object(self, host_state, weight_properties):
        return host_state._row

    def weight_multiplier(self):
        return self.multiplier


class WeighsAll:
    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [each.obj._row for each in weighed_obj_list]


class Neither:
    """No plugin."""


class Known(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return True


class Empty(BaseHostFilter):
    """Defines no hook."""


class Unfinished(ColumnFilter):
    """Lacks its rule."""


class ByColumn(Weigher):
    def weigh(self, hosts, request):
        return hosts.rows


class _Hidden(Passes):
    """Not public."""


def several():
    """Give what a site has."""
    return [Passes, _Hidden]


def nothing():
    """Give nothing."""
    return []


@pytest.mark.parametrize(
    ('cls', 'expected'),
    [
        (Passes, ['h2']),
        (FiltersAll, ['h1']),
        (FiltersOne, ['h2', 'h3']),
        (OnlyFirst, ['h2']),
    ],
)
def test_a_filter_that_knows_nothing_of_us(cls, expected):
    adopted = plugin_adapter.adopt(cls, BaseHostFilter)
    assert issubclass(adopted, cls)
    assert (adopted.__name__, adopted.__module__) == (cls.__name__, HERE)
    filter_ = plugin_adapter.adapted(adopted())
    left = filter_.apply(factories.hosts(3), factories.request())
    assert left.host.tolist() == expected
    assert adopted().run_filter_for_index(1) is (cls is not OnlyFirst)


@pytest.mark.parametrize(('cls', 'multiplier'), [(Weighs, 5.0), (WeighsAll, 1.0)])
def test_a_weigher_that_knows_nothing_of_us(cls, multiplier):
    made = plugin_adapter.make(plugin_adapter.adopt(cls, BaseHostWeigher), None, 'x')
    adopted = plugin_adapter.adapted(made)
    hosts = factories.hosts(2)
    assert adopted.weights(hosts, factories.request()).tolist() == [0, 1]
    assert adopted.multipliers(hosts).tolist() == [multiplier] * 2


@pytest.mark.parametrize(
    ('cls', 'base'),
    [
        (Known, BaseHostFilter),
        (NumInstancesFilter, BaseHostFilter),
        (ByColumn, BaseHostWeigher),
        (RAMWeigher, BaseHostWeigher),
    ],
)
def test_class_of_our_interface_is_not_adapted(cls, base):
    assert plugin_adapter.adopt(cls, base) is cls


@cases(
    'thing, base',
    ('no filter', Neither, BaseHostFilter),
    ('no weigher', Neither, BaseHostWeigher),
    ('no hook', Empty, BaseHostFilter),
    ('abstract', Unfinished, BaseHostFilter),
    ('a weigher among filters', RAMWeigher, BaseHostFilter),
    ('a filter among weighers', Known, BaseHostWeigher),
    ('not public', _Hidden, BaseHostFilter),
    ('a function that gives nothing', nothing, BaseHostFilter),
    ('a number', 3, BaseHostFilter),
)
def test_class_of_the_wrong_kind_is_refused(thing, base):
    with pytest.raises(TypeError, match='Not a class of the correct type'):
        plugin_adapter.classes(thing, base)


def test_a_function_may_give_any_class():
    assert list(plugin_adapter.classes(several, BaseHostFilter)) == [
        'Passes',
        '_Hidden',
    ]


def test_a_built_in_that_needs_arguments_may_have_subclasses(conf):
    made = plugin_adapter.make(Trusting, conf, 'enabled_filters')
    assert made.mark == 1
    assert 'levels' in vars(made) or '_levels' in vars(made)


class Limit(NumInstancesFilter):
    """Is made as in nova, and calls the built-in."""

    def __init__(self):
        super().__init__()
        self.doubled = 2 * self.limit


class ByName(NumInstancesFilter):
    """Calls the built-in by its name, as old plugins do."""

    def __init__(self):
        NumInstancesFilter.__init__(self)
        self.doubled = 14


class Silent(NumInstancesFilter):
    """Does not call the built-in, which in nova has no constructor."""

    def __init__(self):
        self.doubled = 2 * self.limit


class Own(Limit):
    """Is made by a class that is made without arguments."""

    def __init__(self):
        super().__init__()
        self.limit = 3


class Takes(NumInstancesFilter):
    def __init__(self, limit=50):
        super().__init__(limit)
        self.doubled = 2 * self.limit


class TakesAny(NumInstancesFilter):
    def __init__(self, *args):
        super().__init__(*args)
        self.doubled = 2 * self.limit


class FromConf(NumInstancesFilter):
    def __init__(self):
        super().__init__(8)
        self.doubled = 16

    @classmethod
    def from_conf(cls, conf):
        return cls()


class Metrics(MetricsWeigher):
    def __init__(self):
        super().__init__()
        self.name = 'metrics'


class MetricsByName(MetricsWeigher):
    def __init__(self):
        MetricsWeigher.__init__(self)


class Trusting(TrustedFilter):
    """Has a built-in that cannot be made without arguments."""

    def __init__(self):
        super().__init__()
        self.mark = 1


class Abstract(Weigher):
    def __init__(self):
        super().__init__(4.0)

    def weigh(self, hosts, request):
        return hosts.rows


@pytest.fixture
def conf():
    """A configuration with other values than the defaults."""
    made = make_conf()
    made.set_override('max_instances_per_host', 7, 'filter_scheduler')
    made.set_override('weight_setting', ['cpu.frequency=2'], 'metrics')
    return made


@pytest.mark.parametrize(
    ('cls', 'limit', 'doubled'),
    [
        (Limit, 7, 14),
        (ByName, 7, 14),
        (Silent, 7, 14),
        (Own, 3, 14),
        (Takes, 7, 14),
        (TakesAny, 7, 14),
        (FromConf, 8, 16),
    ],
)
def test_a_constructor_of_its_own(conf, cls, limit, doubled):
    made = plugin_adapter.make(cls, conf, 'enabled_filters')
    assert isinstance(made, cls)
    assert type(made).__name__ == cls.__name__
    assert (made.limit, made.doubled) == (limit, doubled)
    hosts = factories.hosts(num_instances=[limit - 1, limit])
    assert made.apply(hosts, factories.request()).host.tolist() == ['h1']


@pytest.mark.parametrize('cls', [Metrics, MetricsByName])
def test_a_weigher_with_a_constructor_of_its_own_has_the_options(conf, cls):
    made = plugin_adapter.make(cls, conf, 'weight_classes')
    hosts = factories.hosts(metrics=[METRICS])
    assert made.weights(hosts, factories.request()).tolist() == [6.0]


def test_a_weigher_of_no_built_in_is_made_without_arguments(conf):
    assert plugin_adapter.make(Abstract, conf, 'weight_classes').multiplier == 4.0


class Raises(Known):
    def __init__(self):
        raise KeyError('no such thing')


class Refuses(Known):
    def __init__(self):
        raise errors.InvalidRequest('no such thing')


@pytest.mark.parametrize(
    ('cls', 'error', 'text'),
    [
        (Raises, errors.OptionError, '[filter_scheduler] x: Raises: KeyError('),
        (Refuses, errors.InvalidRequest, 'The request is invalid: no such'),
        (
            errors.ClassNotFound('a.B', 'broken'),
            errors.ClassNotFound,
            'Class a.B could not be found: broken',
        ),
    ],
)
def test_plugin_that_cannot_be_made_is_an_option_error(conf, cls, error, text):
    with pytest.raises(error) as raised:
        plugin_adapter.make(cls, conf, 'x')
    assert str(raised.value).startswith(text)


class Base:
    def hook(self):
        """The default."""

    def rule(self):
        """The default."""


Base.__module__ = 'novasched.scheduler.bases'


class Ruled(Base):
    def rule(self):
        """A rule of its own."""


class Hooked(Ruled):
    def hook(self, host):
        """A hook of its own."""


class RuledAgain(Hooked):
    def rule(self):
        """A rule of its own."""


class HookAndRule(Ruled):
    def hook(self):
        """A hook of its own."""

    def rule(self, number):
        """No rule, for all that its name says."""


@cases(
    'cls, expected',
    ('the defaults', Base, False),
    ('a rule', Ruled, False),
    ('a hook', Hooked, True),
    ('a rule after the hook', RuledAgain, False),
    ('a plugin that has both', HookAndRule, True),
)
def test_overrides(cls, expected):
    assert plugin_adapter._overrides(cls(), 'hook', 'rule') is expected


def test_an_object_may_have_a_hook_that_its_class_lacks():
    plugin = Ruled()
    plugin.hook = lambda host: 5.0
    assert plugin_adapter._overrides(plugin, 'hook', 'rule')


@cases(
    'hook, expected',
    ('as before Stein', Base().hook, False),
    ('a method', Hooked().hook, True),
    ('a function of the object', lambda host_state: 5.0, True),
    ('whatever comes', lambda *args: 5.0, True),
    ('two are missing', staticmethod(Hooked.hook).__func__, False),
)
def test_takes_host(hook, expected):
    assert plugin_adapter._takes_host(hook) is expected


class OfOurs(Base):
    config_warnings = 'ours'


OfOurs.__module__ = Base.__module__


class KnowsUs(OfOurs):
    config_warnings = 'of a site'


class Helping:
    config_warnings = 'a helper'


class MadeForNova(Helping, OfOurs):
    def host_passes(self, host_state, spec_obj):
        """A hook of nova's."""


class WeighsForNova(KnowsUs):
    def _weigh_object(self, host_state, weight_properties):
        """Another."""


@cases(
    'cls, expected',
    ('ours', OfOurs, 'ours'),
    ('a plugin that knows us', KnowsUs, 'of a site'),
    ('a filter made for nova', MadeForNova, 'ours'),
    ('a weigher made for nova', WeighsForNova, 'ours'),
)
def test_attribute_named_like_ours_is_read_only_from_classes_of_ours(cls, expected):
    assert plugin_adapter._our_attribute(cls, 'config_warnings') == expected


class HelpsItself(BaseHostFilter):
    def apply(self, number):
        return number

    def host_passes(self, host_state, spec_obj):
        return self.apply(host_state.host != 'h2')


class HelpsItselfWithFewer(NumInstancesFilter):
    apply = 'it all'

    def host_passes(self, host_state, spec_obj):
        return super().host_passes(host_state, spec_obj)


@pytest.mark.parametrize('filter_', [HelpsItself(), HelpsItselfWithFewer(1)])
def test_a_filter_may_call_something_else_apply(filter_):
    hosts = factories.hosts(num_instances=[0, 1])
    passed = plugin_adapter.adapted(filter_).apply(hosts, factories.request())
    assert passed.host.tolist() == ['h1']
