# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md shows the layers that the import contract enforces."""

import re

SPLIT = 'placement_copy'
"""Package of two layers: the UPPER ones use adapters, the rest is below the manager."""
UPPER = (f'{SPLIT}.readers', f'{SPLIT}.diagnosis')


def drawn_as(layer):
    """Return the name of a layer in the picture."""
    if layer.startswith(f'{SPLIT}.') and layer not in UPPER:
        return SPLIT
    return layer.replace('.', '/')


def test_the_picture_lists_the_layers_of_the_contract(root, layers):
    page = (root / 'docs' / 'architecture.md').read_text()
    picture = re.search(
        r'^## Layers$.*?^```text$(.*?)^```$', page, re.MULTILINE | re.DOTALL
    )
    drawn = re.findall(r'^([\w/]+?)(?:/|\.py) ', picture.group(1), re.MULTILINE)
    assert drawn == list(dict.fromkeys(map(drawn_as, layers)))


def test_the_layers_are_the_modules_of_the_package(root, layers):
    modules = {
        path.stem
        for path in (root / 'novasched').iterdir()
        if path.suffix == '.py' or (path / '__init__.py').exists()
    }
    split = {f'{SPLIT}.{path.stem}' for path in (root / 'novasched' / SPLIT).iterdir()}
    not_layers = {'__init__', SPLIT, f'{SPLIT}.__init__', f'{SPLIT}.__pycache__'}
    assert (modules | split) - not_layers == set(layers)
