# SPDX-License-Identifier: Apache-2.0
"""A history, read item by item; memory is bounded by one state of each worker.

``read(path)`` yields the items of all workers by time, ``read_file(path)`` the items of
one file in its order. ``path`` is a directory, a file, or the document of one request.

The items:

``RecordedRequest``
    One request that ended: ``at`` (seconds since 1970), ``spec`` (primitive of the
    RequestSpec that the driver got), ``instance_uuids``, ``profile`` (``nova_release``
    and ``options`` by group), ``seed``, ``decisions`` (form of
    docs/reference/shadow-replay.md; without any, placement refused: ``blocker``),
    ``answer`` (for each server the [host, node] picked, then its alternates),
    ``rounds`` (how often it was decided again, by outcome). ``hosts()`` returns the
    HostTable that was offered, with candidates, in order; ``state.hosts()`` all hosts.
    ``document()`` returns the document of this one request.
``EndedInstance``
    ``uuid`` left ``host`` (deleted, or moved away): ``at``, ``host``, ``uuid``. Every
    worker hears of it: ends repeat across workers.
``StartedInstance``
    ``uuid`` is known on ``host`` (built, or moved there), with the id of its flavor.
``ProviderChange``
    Providers of the copy of placement that are new or changed, by uuid: ``parent``,
    ``inventories`` by class (``capacity``, ``min_unit``, ``max_unit``, ``step_size``,
    ``used``), ``traits``, ``aggregates``; None for one that is gone. All of them at the
    start of each file; what is ``used`` alone is no change.
``Gap``
    What is not in the history, with its ``text``: requests that were dropped
    (``requests``), a torn end of a file.

A ``RecordedRequest`` is valid until the next item is taken: its state goes on.
"""
