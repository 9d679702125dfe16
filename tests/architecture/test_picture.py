# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md shows the layers that the import contract enforces."""

import re


def test_the_picture_lists_the_layers_of_the_contract(root, layers):
    page = (root / 'docs' / 'architecture.md').read_text()
    picture = re.search(
        r'^## Layers$.*?^```text$(.*?)^```$', page, re.MULTILINE | re.DOTALL
    )
    drawn = re.findall(r'^(\w+)(?:/|\.py) ', picture.group(1), re.MULTILINE)
    assert drawn == layers


def test_the_layers_are_the_modules_of_the_package(root, layers):
    modules = {
        path.stem
        for path in (root / 'novasched').iterdir()
        if path.suffix == '.py' or (path / '__init__.py').exists()
    }
    assert modules - {'__init__'} == set(layers)
