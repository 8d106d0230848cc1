"""A strict stand-in for a paid service: verifies the authentication of every request, decodes every field, and prints what it took.

Usage: vendor_receiver.py appoptics|circonus|signalfx PORT CERTIFICATE KEY SECRET [busy=N]

It speaks HTTPS, or HTTP if the certificate is `-`. A path may begin with `/front-NAME`. busy=N: the first N requests are answered with 503. One JSON line a request on standard output: outcome, path and items;
`error` for what is not strictly what the service takes. The messages of SignalFx are read with the schema in SignalFx's own package, and a
measurement is what AppOptics' own client makes of its values.
"""

import ast
import base64
import gzip
import http.server
import importlib.metadata
import json
import re
import ssl
import sys
import threading
import time

from google.protobuf import descriptor_pool, json_format, message_factory

VENDOR, PORT, CERTIFICATE, KEY, SECRET = sys.argv[1:6]
BUSY = int(dict(option.split("=") for option in sys.argv[6:]).get("busy", 0))
LOCK = threading.Lock()
SEEN = 0


def require(holds, what):
    if not holds:
        raise ValueError(what)


def no_duplicates(pairs):
    require(len({key for key, _ in pairs}) == len(pairs), "a key is there twice")
    return dict(pairs)


def from_json(body):
    def refuse(constant):
        raise ValueError(constant)

    return json.loads(body.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=refuse)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_recent(seconds):
    return abs(time.time() - seconds) < 600


def appoptics_client():
    """AppOptics' own client, which adds what it would post to the list; it shortens names that AppOptics does not take."""
    import appoptics_metrics

    client, posted = appoptics_metrics.connect(SECRET, sanitizer=appoptics_metrics.sanitize_metric_name), []
    client._mexe = lambda path, method, query_props: posted.append((method, path, query_props))
    return client, posted


CLIENT = appoptics_client() if VENDOR == "appoptics" else None


def official_measurement(one):
    """The measurement of the same values that AppOptics' own client makes."""
    client, posted = CLIENT
    client.submit(**one)
    method, path, message = posted.pop()
    require((method, path) == ("POST", "measurements") and list(message) == ["measurements"], "the client")
    return message["measurements"]


def appoptics(method, path, headers, body):
    require((method, path) == ("POST", "/v1/measurements"), "the method and the path")
    expected = "Basic " + base64.b64encode(("token:" + SECRET).encode()).decode()
    require(headers.get("authorization") == expected, "the authorization")
    require(headers["content-type"] == headers["accept"] == "application/json", "the content type")
    message = from_json(body)
    require(set(message) == {"measurements"} and 0 < len(message["measurements"]) <= 1000, "the measurements")
    for one in message["measurements"]:
        require(set(one) - {"tags"} == {"name", "time", "value"}, "the members")
        require(re.fullmatch(r"[-.:\w]{1,255}", one["name"], re.ASCII), "the name")
        require(isinstance(one["time"], int) and is_recent(one["time"]), "the time")
        require(is_number(one["value"]), "the value")
        for name, value in one.get("tags", {"x": "x"}).items():
            require(re.fullmatch(r"[-.:\w]{1,64}", name, re.ASCII) and isinstance(value, str), "the tags")
        # The client makes none without tags.
        require("tags" not in one or official_measurement(dict(one)) == [one], "not what the client of AppOptics makes")
    count = len(message["measurements"])
    summary = {"total": count, "accepted": count, "failed": 0, "filtered": 0}
    return message["measurements"], 202, {"measurements": {"summary": summary}}


def circonus(method, path, headers, body):
    require((method, path) == ("PUT", "/module/httptrap/check/" + SECRET), "the method and the path")
    require(headers["content-type"] == headers["accept"] == "application/json", "the content type")
    message = from_json(body)
    require(message, "an empty submission")
    for metric in message.values():
        require(set(metric) == {"_type", "_value"}, "the members")
        kind, value = metric["_type"], metric["_value"]
        if kind == "n":
            require(value and all(re.fullmatch(r"H\[-?\d\.\de\+\d\d\]=[1-9]\d*", text) for text in value), "the bins")
            require(len({text.split("=")[0] for text in value}) == len(value), "a bin is there twice")
        else:
            require(kind in ("L", "l") and isinstance(value, int), "the value")
            require(kind == "l" or 0 <= value < 1 << 64, "the range")
    return [{"name": name, **metric} for name, metric in message.items()], 200, {"stats": len(message)}


def signalfx_schema():
    files = importlib.metadata.files("signalfx")
    source = next(file for file in files if file.name == "signal_fx_protocol_buffers_pb2.py").read_text()
    # The code in it is too old to be run.
    for node in ast.walk(ast.parse(source)):
        for keyword in getattr(node, "keywords", []):
            if keyword.arg == "serialized_pb":
                text = ast.literal_eval(getattr(keyword.value, "args", [keyword.value])[0])
                pool = descriptor_pool.DescriptorPool()
                pool.AddSerializedFile(text.encode("latin1") if isinstance(text, str) else text)
                name = "com.signalfx.metrics.protobuf.DataPointUploadMessage"
                return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    raise ValueError("there is no schema in the package signalfx")


UPLOAD = signalfx_schema() if VENDOR == "signalfx" else None


def datapoints(body):
    message = UPLOAD()
    message.ParseFromString(body)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    require(message.ByteSize() == size == len(body), "an unknown field")
    for point in message.datapoints:
        require(point.HasField("metric") and 0 < len(point.metric) <= 256, "the metric")
        require(is_recent(point.timestamp / 1000), "the timestamp")
        require(len(point.value.ListFields()) == 1, "the value")
        require(point.HasField("metricType"), "the type")
        keys = [dimension.key for dimension in point.dimensions]
        require(len(set(keys)) == len(keys), "a dimension is there twice")
        for dimension in point.dimensions:
            require(re.fullmatch(r"[a-zA-Z][-\w]{0,127}", dimension.key, re.ASCII) and dimension.value, "the dimensions")
    return [json_format.MessageToDict(point) for point in message.datapoints]


def spans(body):
    message = from_json(body)
    members = {"traceId", "name", "parentId", "id", "kind", "timestamp", "duration", "debug", "shared", "localEndpoint",
               "remoteEndpoint", "annotations", "tags"}
    for span in message:
        require(set(span) == members, "the members")
        require(re.fullmatch(r"[0-9a-f]{16}|[0-9a-f]{32}", span["traceId"]), "the id of the trace")
        require(re.fullmatch(r"[0-9a-f]{16}", span["id"]), "the id")
        require(span["kind"] in ("CLIENT", "SERVER"), "the kind")
        require(is_number(span["timestamp"]) and is_number(span["duration"]), "the times")
        require(all(isinstance(value, str) and value for value in span["tags"].values()), "the tags")
    return message


def signalfx(method, path, headers, body):
    require(method == "POST" and headers.get("x-sf-token") == SECRET, "the method and the token")
    require(headers["user-agent"].startswith("mixer/"), "the agent")
    if path == "/v2/datapoint":
        require(headers["content-type"] == "application/x-protobuf", "the content type")
        is_compressed = headers.get("content-encoding") == "gzip"
        return datapoints(gzip.decompress(body) if is_compressed else body), 200, "OK"
    require((path, headers["content-type"]) == ("/v1/trace", "application/json"), "the path")
    return spans(body), 200, "OK"


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def take(self):
        global SEEN
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {key.lower(): value for key, value in self.headers.items()}
        with LOCK:
            SEEN += 1
            line = {"outcome": "taken", "path": self.path, "agent": headers.get("user-agent")}
            try:
                path = re.sub(r"^/front-\w+", "", self.path)
                line["items"], status, answer = globals()[VENDOR](self.command, path, headers, body)
                if SEEN <= BUSY:
                    line["outcome"], status, answer = "busy", 503, {}
            except Exception as error:
                line["error"], status, answer = repr(error), 400, {"errors": {"request": [repr(error)]}}
            print(json.dumps(line), flush=True)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = take

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Connections without a request, such as those that look whether somebody listens."""


server = Server(("127.0.0.1", int(PORT)), Http)
if CERTIFICATE != "-":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
