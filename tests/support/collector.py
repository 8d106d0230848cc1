"""A collector of spans that reads what it is sent with code made from the definitions of Zipkin and Jaeger, and prints it.

Usage: collector.py PORT. One JSON line a request on standard output: its path, its content type and its spans.
"""

import http.server
import json
import sys

from jaeger_client.thrift_gen.jaeger.ttypes import Batch
from jaeger_client.thrift_gen.zipkincore.ttypes import Span as ZipkinSpan
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

import zipkin_v2


def hexadecimal(number):
    return "%016x" % ((number or 0) & (2**64 - 1))


def read(body, into):
    """Reads a message to its last byte."""
    transport = TMemoryBuffer(body)
    seen = into(TBinaryProtocol(transport))
    if transport._buffer.read():
        raise ValueError("bytes after the message")
    return seen


def zipkin(body):
    def spans(protocol):
        _, count = protocol.readListBegin()
        seen = [ZipkinSpan() for _ in range(count)]
        for span in seen:
            span.read(protocol)
        protocol.readListEnd()
        return seen

    def span(of):
        return {
            "traceId": hexadecimal(of.trace_id_high) + hexadecimal(of.trace_id),
            "id": hexadecimal(of.id),
            "parentId": hexadecimal(of.parent_id),
            "name": of.name,
            "timestamp": of.timestamp,
            "duration": of.duration,
            "annotations": [[note.value, note.timestamp, note.host.service_name] for note in of.annotations],
            "tags": {tag.key: tag.value for tag in of.binary_annotations},
        }

    return {"spans": [span(of) for of in read(body, spans)]}


def jaeger(body):
    def whole(protocol):
        batch = Batch()
        batch.read(protocol)
        return batch

    batch = read(body, whole)

    def value(tag):
        values = (tag.vStr, tag.vDouble, tag.vBool, tag.vLong, tag.vBinary)
        return values[tag.vType]

    def tags(of):
        return {tag.key: value(tag) for tag in of or []}

    def span(of):
        return {
            "traceId": hexadecimal(of.traceIdHigh) + hexadecimal(of.traceIdLow),
            "id": hexadecimal(of.spanId),
            "parentId": hexadecimal(of.parentSpanId),
            "name": of.operationName,
            "flags": of.flags,
            "timestamp": of.startTime,
            "duration": of.duration,
            "tags": tags(of.tags),
            "logs": [{"timestamp": log.timestamp, "fields": tags(log.fields)} for log in of.logs or []],
        }

    return {"service": batch.process.serviceName, "spans": [span(of) for of in batch.spans]}


def decode(path, content_type, body):
    if path.startswith("/api/v1/spans"):
        return zipkin(body)
    if path.startswith("/api/v2/spans"):
        return {"spans": zipkin_v2.read(content_type, body)}
    return jaeger(body)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            seen = decode(self.path, self.headers["content-type"], body)
            status = 202
        except Exception as error:
            seen = {"error": repr(error)}
            status = 400
        seen.update(path=self.path, contentType=self.headers["content-type"])
        print(json.dumps(seen), flush=True)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
