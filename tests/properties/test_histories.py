# SPDX-License-Identifier: Apache-2.0
"""Requests that were recorded one after the other are decided again as they were."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from novasched.decisions import history
from novasched.history import export, reading
from novasched.history.files import HistorySettings
from novasched.history.reading import RecordedRequest
from novasched.history.recording import HistoryRecorder
from novasched.inspection.questions.history_check import check
from novasched.inspection.questions.replay import replay
from tests.properties import test_dry_runs as dry
from tests.properties.test_decisions import seeds
from tests.properties.test_whole_requests import asked, names_left, recorded
from tests.support.clouds.dry_clouds import conf_of
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.examples import examples

PROFILES = {}


@st.composite
def changing_clouds(draw):
    """Draw clouds one after the other: the same, one with another node, or another."""
    found = [draw(dry.clouds())]
    for _ in range(draw(st.integers(1, 4))):
        last = found[-1]
        change = draw(st.sampled_from(['nothing', 'node', 'node', 'all']))
        if change == 'node':
            place = draw(st.integers(0, len(last.nodes) - 1))
            node = draw(dry.nodes(last.nodes[place].host, place, False))
            nodes = [*last.nodes]
            nodes[place] = replace(node, cell=last.nodes[place].cell)
            last = replace(last, nodes=tuple(nodes))
        found.append(draw(dry.clouds()) if change == 'all' else last)
    return found


def profile_of(cloud):
    """Return the profile of a cloud, the same object each time."""
    text = json.dumps(cloud.options)
    options = history.decisive_options(conf_of(text))
    return PROFILES.setdefault(text, {'nova_release': 34, 'options': options})


def record(directory, requests):
    """Record requests, each in its cloud; return their recorders."""
    current = []
    recorder = HistoryRecorder(
        HistorySettings(directory),
        'rack1',
        lambda: profile_of(current[-1]),
        clock=FakeClock(),
    )
    found = []
    for cloud, wanted, seed in requests:
        current.append(cloud)
        for made in recorded(cloud, seed, **wanted):
            recorder.add(made)
            found.append(made)
        recorder.flush()
    recorder.close()
    return found


@given(clouds=changing_clouds(), data=st.data())
@examples(60)
def test_requests_recorded_in_changing_clouds_are_decided_again_as_they_were(
    clouds, data
):
    requests = [(cloud, data.draw(asked), data.draw(seeds)) for cloud in clouds]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        found = record(directory, requests)
        report = check(directory, 1, lambda *read: None)
        assert report.is_equal, report.difference
        assert (report.requests, report.gaps) == (len(found), [])
        items = [i for i in reading.read(directory) if isinstance(i, RecordedRequest)]
        assert [item.line['id'] for item in items] == [made.id for made in found]
        if not found:
            return
        (file,) = reading.files_of(directory)
        for item, made in zip(reading.read_file(file), found, strict=True):
            decided = history.first_decision(made)
            assert item.is_decided == (decided is not None)
            if decided is not None:
                document = item.document()
                assert replay(document).is_equal
                assert document['requests'][0]['decisions'] == history.decisions(made)
        hidden = directory / 'hidden'
        assert export.export(directory, hidden, True, lambda n: None) == len(found)
        report = check(hidden, 1, lambda *read: None)
        assert (report.is_equal, report.requests) == (True, len(found))
        for item, other in zip(
            reading.read_file(file), reading.read_file(hidden), strict=True
        ):
            if item.is_decided:
                assert not names_left(item.document(), other.document())
        hidden.unlink()
        whole = file.read_bytes()
        file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        torn = check(directory, 1, lambda *read: None)
        assert torn.is_equal
        assert torn.requests <= report.requests
        assert torn.gaps
