# SPDX-License-Identifier: Apache-2.0
"""A collector of traces, which takes OTLP over HTTP."""

import contextlib
import threading

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from tests.support.servers.http_servers import HttpServer, JsonHandler


class _Handler(JsonHandler):
    def post(self):
        self.server.service.take(self.path, self.body())
        with contextlib.suppress(BrokenPipeError):  # the sender has ended meanwhile
            self.answer(self.server.service.status)


class Collector(HttpServer):
    """Keeps spans, with the attributes of their senders, in the order of their ends.

    It takes a batch only while ``is_open`` is set, and answers with ``status``.
    """

    def __init__(self):
        super().__init__(_Handler)
        self.is_open = threading.Event()
        self.is_open.set()
        self.status = 200
        self.paths = set()
        self.asked = 0
        self.spans = []

    def take(self, path, body):
        self.asked += 1
        self.is_open.wait(60)
        self.paths.add(path)
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            sender = attributes(resource.resource)
            for scope in resource.scope_spans:
                self.spans += [(span, sender) for span in scope.spans]

    def named(self, name):
        """Return the spans of this name."""
        return [span for span, _ in self.spans if span.name == name]


def attributes(message):
    """Return the attributes of a span, or of its sender."""
    found = {}
    for each in message.attributes:
        kind = each.value.WhichOneof('value')
        value = getattr(each.value, kind)
        if kind == 'array_value':
            value = [item.string_value for item in value.values]
        found[each.key] = value
    return found
