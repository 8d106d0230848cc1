"""A strict collector of OTLP: reads what it is sent with OpenTelemetry's own definitions, and prints it. It takes spans of Zipkin (version 2) as well, as
strictly.

Usage: otlp_receiver.py GRPC_PORT HTTP_PORT [busy=N] [reject=N] [numbers=NAME]

busy=N: the first N requests of each signal are refused for a moment, as the specification says. reject=N: N items of every other request
are rejected. numbers=NAME: of log records, only the integers of this attribute are printed, as `numbers`. One JSON line a request on standard output: protocol, signal, outcome, headers and message; `error` for what is not strictly
OTLP.
"""

import gzip
import http.server
import json
import sys
import threading
from concurrent import futures

import grpc
from google.protobuf import any_pb2, duration_pb2, json_format
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

import zipkin_v2

SIGNALS = {
    "metrics": ("opentelemetry.proto.collector.metrics.v1.MetricsService", metrics.ExportMetricsServiceRequest,
                metrics.ExportMetricsServiceResponse, "rejected_data_points"),
    "logs": ("opentelemetry.proto.collector.logs.v1.LogsService", logs.ExportLogsServiceRequest,
             logs.ExportLogsServiceResponse, "rejected_log_records"),
    "traces": ("opentelemetry.proto.collector.trace.v1.TraceService", traces.ExportTraceServiceRequest,
               traces.ExportTraceServiceResponse, "rejected_spans"),
}
OPTIONS = dict(option.split("=") for option in sys.argv[3:])
LOCK = threading.Lock()
SEEN = {signal: 0 for signal in SIGNALS}


def read(kind, body):
    """The message; it has no field that OpenTelemetry does not define, and its size is that of its fields."""
    message = kind()
    message.ParseFromString(body)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size or size != len(body):
        raise ValueError("%d of %d bytes are known" % (message.ByteSize(), len(body)))
    return message


def take(protocol, signal, headers, body):
    """What becomes of a request: None if the collector is busy, or the response."""
    _, request, response, rejected = SIGNALS[signal]
    with LOCK:
        SEEN[signal] += 1
        line = {"protocol": protocol, "signal": signal, "headers": headers, "outcome": "taken"}
        try:
            message = read(request, body)
            if "numbers" in OPTIONS and signal == "logs":
                line["numbers"] = [
                    attribute.value.int_value
                    for resource in message.resource_logs for scope in resource.scope_logs for record in scope.log_records
                    for attribute in record.attributes if attribute.key == OPTIONS["numbers"]
                ]
            else:
                line["message"] = json_format.MessageToDict(message, preserving_proto_field_name=True)
        except Exception as error:
            line["error"] = repr(error)
        answer = response()
        if SEEN[signal] <= int(OPTIONS.get("busy", 0)):
            line["outcome"], answer = "busy", None
        elif "reject" in OPTIONS and SEEN[signal] % 2 == 0:
            line["outcome"] = "rejected"
            setattr(answer.partial_success, rejected, int(OPTIONS["reject"]))
            answer.partial_success.error_message = "not\nthese"
        print(json.dumps(line), flush=True)
        return answer


def export(signal):
    def call(body, context):
        headers = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        answer = take("grpc", signal, headers, body)
        if answer is not None:
            return answer.SerializeToString()
        # google.rpc.Status with a RetryInfo of 10 ms.
        delay = duration_pb2.Duration(nanos=10_000_000).SerializeToString()
        info = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x0a" + bytes([len(delay)]) + delay)
        info = info.SerializeToString()
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x08\x08\x1a" + bytes([len(info)]) + info),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    return grpc.unary_unary_rpc_method_handler(call)


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path.startswith("/api/v2/spans?front="):
            front = self.path.partition("=")[2]
            line = {"signal": "zipkin", "front": front}
            try:
                line["spans"] = zipkin_v2.read(self.headers["content-type"], body)
            except Exception as error:
                line["error"] = repr(error)
            with LOCK:
                print(json.dumps(line), flush=True)
            self.send_response(400 if "error" in line else 202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        signal = self.path.removeprefix("/v1/")
        headers = {key.lower(): value for key, value in self.headers.items()}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if signal not in SIGNALS or headers.get("content-type") != "application/x-protobuf":
            with LOCK:
                print(json.dumps({"error": "%s %s" % (self.path, headers)}), flush=True)
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        answer = take("http", signal, headers, body)
        content = b"" if answer is None else answer.SerializeToString()
        self.send_response(429 if answer is None else 200)
        if answer is None:
            self.send_header("retry-after", "0")
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
for name, (service, *_) in SIGNALS.items():
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": export(name)}),))
if server.add_insecure_port("127.0.0.1:" + sys.argv[1]) == 0:
    sys.exit("the port is taken")
threading.Thread(target=Server(("127.0.0.1", int(sys.argv[2])), Http).serve_forever, daemon=True).start()
server.start()
server.wait_for_termination()
