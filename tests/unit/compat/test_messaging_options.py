# SPDX-License-Identifier: Apache-2.0
"""Names of options of oslo.messaging that older releases of nova still read."""

import pytest

from novasched import app
from novasched.compat import messaging_options, removed_options
from novasched.compat.messaging_options import OLD_NAMES
from novasched.process import configuration
from novasched.releases import RELEASES, named
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

RABBIT = 'oslo_messaging_rabbit'
FILE = """
[DEFAULT]
amqp_auto_delete = true
rpc_conn_pool_size = 7
notification_driver = messagingv2
notification_driver = log
notification_topics = one,two
[oslo_messaging_rabbit]
rabbit_use_ssl = true
kombu_ssl_ca_certs = /ca.pem
rabbit_quroum_max_memory_length = 5
"""


@pytest.fixture
def conf(tmp_path):
    """Read a file as nova.conf of a cloud whose release an option pins."""

    def read(text, release='29'):
        path = tmp_path / 'nova.conf'
        path.write_text(text)
        made = make_conf()
        made(['--config-file', str(path)], project='nova')
        made.set_override('nova_release', release, 'novasched')
        app.use_names_of_release(made)
        return made

    return read


def values(conf):
    rabbit, sent = conf[RABBIT], conf.oslo_messaging_notifications
    return (
        rabbit.amqp_auto_delete,
        rabbit.rpc_conn_pool_size,
        rabbit.ssl,
        rabbit.ssl_ca_file,
        rabbit.rabbit_quorum_max_memory_length,
        sent.driver,
        sent.topics,
    )


@pytest.mark.parametrize('release', RELEASES, ids=str)
def test_old_names_are_read_where_the_release_reads_them(conf, release):
    length = 5 if release.number <= 31 else 0
    old = True, 7, True, '/ca.pem', length, ['messagingv2', 'log'], ['one', 'two']
    today = False, 30, False, '', length, [], ['notifications']
    expected = old if release.number <= 30 else today
    assert values(conf(FILE, str(release.number))) == expected


def test_the_present_name_wins(conf):
    text = f'[{RABBIT}]\nssl = false\nrabbit_use_ssl = true\n'
    assert conf(text)[RABBIT].ssl is False


def test_a_value_that_is_gone_after_a_reload_counts_no_more(conf, tmp_path):
    read = conf(FILE)
    (tmp_path / 'nova.conf').write_text('')
    read.reload_config_files()
    app.use_names_of_release(read)
    assert read[RABBIT].ssl is False


@cases('number, read',
    ('29', 29, True), ('30', 30, True), ('31', 31, False), ('34', 34, False),
)  # fmt: skip
def test_each_name_has_releases(number, read):
    release = named(str(number))
    assert {each.is_read_by(release) for each in OLD_NAMES if not each.is_misspelt} == {
        read
    }


def test_names_in_a_file_have_a_line_by_release(conf):
    held = configuration.held(conf(FILE))
    lines = list(messaging_options.warnings(held))
    spelt, misspelt = lines
    assert spelt.startswith(
        '[oslo_messaging_rabbit] rabbit_use_ssl (now [oslo_messaging_rabbit] ssl), '
    )
    assert spelt.count(' (now ') == 6
    assert 'only the libraries of nova 30 and older read this' in spelt
    assert 'quroum' in misspelt
    assert 'nova 31 and older' in misspelt
    assert list(removed_options.warnings(held, {})) == []
