# SPDX-License-Identifier: Apache-2.0
"""Nova's objects as they travel."""


def primitive(name, version, /, **data):
    """Return an object of nova's as it travels."""
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': data,
    }
