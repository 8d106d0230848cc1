"""A strict stand-in for Google's services: verifies assertions with PyJWT, reads requests with Google's own definitions, and prints them.

Usage: gcp.py PORT DIRECTORY [grpc=PORT] [plain=PORT] [busy=N] [expired=N] [revoked=N]

PORT takes plain HTTP (the token endpoint, the metadata server) and, as a proxy, that of Service Control; the others take gRPC, with TLS and in plain text.
DIRECTORY gets sa.json, the key file of a service account. busy=N, expired=N: the first N requests are answered so. revoked=N: tokens have numbers, and
the first N of them are refused by the sink of the Mesh Configuration Protocol, which is served as well. One JSON line a request: `error` for what is not as
Google defines it.
"""

import json
import os
import sys
import urllib.parse
from concurrent import futures

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from google.cloud import monitoring_v3, trace_v2
from google.cloud.logging_v2.types import logging as logging_types
from google.cloud.logging_v2.types import logging_config
from google.cloud.servicecontrol_v1.types import quota_controller, service_controller
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

import stand

PORT, DIRECTORY = int(sys.argv[1]), sys.argv[2]
OPTIONS = dict(option.split("=") for option in sys.argv[3:])
TOKEN_URI = "http://127.0.0.1:%d/token" % PORT
EMAIL = "mixer@lab-proj.iam.gserviceaccount.com"
SCOPES = {"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/servicecontrol"}
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
METADATA = {
    "project/project-id": "gce-proj",
    "instance/attributes/cluster-name": "clu",
    "instance/attributes/cluster-location": "us-central1-a",
}
COUNTS = {}


def graph():
    """The context graph, which Google does not publish: the fields that Istio Mixer uses."""
    file = descriptor_pb2.FileDescriptorProto(
        name="graph.proto", package="graph", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, fields):
        added = file.message_type.add(name=name)
        for number, (field, kind, repeated) in fields.items():
            of = added.field.add(name=field, number=number, label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL)
            if kind == "string":
                of.type = kinds.TYPE_STRING
            elif kind == "Owner":
                of.type, of.type_name = kinds.TYPE_ENUM, ".graph.Owner"
            else:
                of.type, of.type_name = kinds.TYPE_MESSAGE, kind
    owner = file.enum_type.add(name="Owner")
    for number, name in enumerate(("UNSPECIFIED", "SOURCE", "TARGET")):
        owner.value.add(name=name, number=number)
    time = (".google.protobuf.Timestamp", False)
    message("Entity", {6: ("location", "string", False), 7: ("full_name", "string", False), 8: ("short_names", "string", True),
                       9: ("type_name", "string", False), 10: ("container_full_name", "string", False)})
    message("Relationship", {4: ("type_name", "string", False), 5: ("source_full_name", "string", False),
                             6: ("target_full_name", "string", False)})
    message("EntityPresentAssertion", {1: ("timestamp", *time), 2: ("entity", ".graph.Entity", False)})
    message("RelationshipPresentAssertion", {1: ("timestamp", *time), 2: ("relationship", ".graph.Relationship", False),
                                             6: ("owning_entity", "Owner", False)})
    message("AssertBatchRequest", {1: ("entity_present_assertions", ".graph.EntityPresentAssertion", True),
                                   2: ("relationship_present_assertions", ".graph.RelationshipPresentAssertion", True)})
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("graph.AssertBatchRequest"))


METHODS = {
    "google.monitoring.v3.MetricService": {"CreateTimeSeries": monitoring_v3.CreateTimeSeriesRequest.pb()},
    "google.logging.v2.LoggingServiceV2": {"WriteLogEntries": logging_types.WriteLogEntriesRequest.pb()},
    "google.logging.v2.ConfigServiceV2": {"CreateSink": logging_config.CreateSinkRequest.pb(),
                                          "UpdateSink": logging_config.UpdateSinkRequest.pb()},
    "google.devtools.cloudtrace.v2.TraceService": {"BatchWriteSpans": trace_v2.types.BatchWriteSpansRequest.pb()},
    "google.cloud.contextgraph.v1alpha1.ContextGraphService": {"AssertBatch": graph()},
}


def resources():
    """A message of the Mesh Configuration Protocol to a sink, as far as this one reads it, and its request."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="mcp.proto", package="mcp", syntax="proto3")
    for name, fields in (("Resources", {2: ("collection", kinds.TYPE_STRING), 3: ("resources", kinds.TYPE_BYTES), 5: ("nonce", kinds.TYPE_STRING)}),
                         ("Request", {2: ("collection", kinds.TYPE_STRING), 4: ("response_nonce", kinds.TYPE_STRING)})):
        message = file.message_type.add(name=name)
        for number, (field, kind) in fields.items():
            repeated = field == "resources"
            message.field.add(name=field, number=number, type=kind, label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName("mcp." + name)) for name in ("Resources", "Request")]


RESOURCES, REQUEST = resources()
RULES = "istio/policy/v1beta1/rules"


def sink(messages, context):
    """A sink that asks for rules, if the source has a token that is not revoked."""
    metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
    line = {"method": "sink", "metadata": metadata}
    token = metadata.get("authorization", "")
    numbered = token.removeprefix("Bearer GT-")
    if not token.startswith("Bearer GT-") or not numbered.isdigit():
        stand.tell(error="authorization", **line)
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
    if int(numbered) <= int(OPTIONS.get("revoked", 0)):
        stand.tell(outcome="revoked", **line)
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "revoked")
    for body in messages:
        message = RESOURCES.FromString(body)
        if message.collection == RULES:
            stand.tell(outcome="taken", count=len(message.resources), **line)
            yield REQUEST(collection=RULES, response_nonce=message.nonce).SerializeToString()
        else:
            stand.tell(outcome="asked", collection=message.collection, **line)
            yield REQUEST(collection=RULES).SerializeToString()


CONTROL = {
    "check": service_controller.CheckRequest.pb(),
    "report": service_controller.ReportRequest.pb(),
    "allocateQuota": quota_controller.AllocateQuotaRequest.pb(),
}
ANSWERS = {
    "check": {"checkInfo": {"consumerInfo": {"projectNumber": "4321"}}, "operationId": "o"},
    "report": {},
    "allocateQuota": {"quotaMetrics": [{
        "metricName": "serviceruntime.googleapis.com/api/consumer/quota_used_count",
        "metricValues": [{"labels": {"/quota_name": "reads"}, "int64Value": "2"}]}]},
}


def first(option):
    """Whether this is one of the first requests."""
    with stand.LOCK:
        COUNTS[option] = COUNTS.get(option, 0) + 1
        return COUNTS[option] <= int(OPTIONS.get(option, 0))


def read(kind, body):
    """The message; it has no field that is not defined, and its size is that of its fields."""
    message = kind()
    message.ParseFromString(body)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size or size != len(body):
        raise ValueError("%d of %d bytes are known" % (message.ByteSize(), len(body)))
    return message


def rpc(service, name, kind):
    def call(body, context):
        metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        line = {"method": "/%s/%s" % (service, name), "metadata": metadata}
        if metadata.get("authorization") != "Bearer GT":
            stand.tell(error="authorization", **line)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
        try:
            line["request"] = json_format.MessageToDict(read(kind, body), preserving_proto_field_name=True)
        except Exception as error:
            stand.tell(error=repr(error), **line)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not valid")
        # What is answered so is counted for what is reported.
        is_sink = name.endswith("Sink")
        if not is_sink and first("busy"):
            stand.tell(outcome="busy", **line)
            context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        if not is_sink and first("expired"):
            stand.tell(outcome="expired", **line)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "over")
        if name == "CreateSink" and line["request"]["sink"]["name"] == "there":
            stand.tell(outcome="exists", **line)
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "AlreadyExists")
        stand.tell(outcome="taken", **line)
        return b""

    return grpc.unary_unary_rpc_method_handler(call)


class Google(stand.Handler):
    def token(self, body):
        """A token for a signed assertion."""
        form = dict(urllib.parse.parse_qsl(body.decode("ascii"), strict_parsing=True))
        if form.pop("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            raise ValueError("grant type")
        assertion = form.pop("assertion")
        if form or jwt.get_unverified_header(assertion) != {"alg": "RS256", "typ": "JWT", "kid": "key-1"}:
            raise ValueError("%s %s" % (form, jwt.get_unverified_header(assertion)))
        claims = jwt.decode(assertion, KEY.public_key(), algorithms=["RS256"], audience=TOKEN_URI, issuer=EMAIL,
                            options={"require": ["iss", "aud", "iat", "exp", "scope"]})
        if claims["scope"] not in SCOPES or claims["exp"] - claims["iat"] > 3600:
            raise ValueError("claims %s" % claims)

    def answer(self, method, path, headers, body):
        if path == "/token":
            try:
                self.token(body)
            except Exception as error:
                stand.tell(error=repr(error), path=path)
                return 400, {}, b'{"error": "invalid_grant"}'
            name = "GT"
            if "revoked" in OPTIONS:
                first("tokens")
                name = "GT-%d" % COUNTS["tokens"]
            return 200, {}, json.dumps({"access_token": name, "token_type": "Bearer", "expires_in": 3600}).encode()
        if path.startswith("/computeMetadata/v1/"):
            known = METADATA.get(path.removeprefix("/computeMetadata/v1/"))
            is_asked_well = headers.get("metadata-flavor") == "Google"
            return (200, {}, known.encode()) if known and is_asked_well else (404, {}, b"")
        line = {"method": method, "path": path, "host": headers.get("host"), "headers": headers}
        try:
            action = path.removesuffix("?alt=json").rsplit(":", 1)[1]
            if headers.get("authorization") != "Bearer GT" or headers.get("content-type") != "application/json":
                raise ValueError("headers %s" % headers)
            line["json"] = json.loads(body)
            message = json_format.Parse(body, CONTROL[action]())
            if json_format.MessageToDict(message).keys() != line["json"].keys():
                raise ValueError("fields %s" % line["json"].keys())
        except Exception as error:
            stand.tell(error=repr(error), **line)
            return 400, {}, b'{"error": {"message": "not valid"}}'
        if first("busy"):
            stand.tell(outcome="busy", **line)
            return 503, {}, b'{"error": {"message": "later"}}'
        if first("expired"):
            stand.tell(outcome="expired", **line)
            return 401, {}, b'{"error": {"message": "over"}}'
        stand.tell(outcome="taken", **line)
        return 200, {"content-type": "application/json"}, json.dumps(ANSWERS[action]).encode()


stand.certificates(DIRECTORY, ["servicecontrol.googleapis.com", "localhost", "127.0.0.1"])
with open(os.path.join(DIRECTORY, "sa.json"), "w") as file:
    json.dump({"type": "service_account", "client_email": EMAIL, "private_key_id": "key-1",
               "private_key": stand.pem(KEY).decode(), "token_uri": TOKEN_URI}, file)
if "grpc" in OPTIONS or "plain" in OPTIONS:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    for service, methods in METHODS.items():
        handlers = {name: rpc(service, name, kind) for name, kind in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    handlers = {"EstablishResourceStream": grpc.stream_stream_rpc_method_handler(sink)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("istio.mcp.v1alpha1.ResourceSink", handlers),))
    files = [open(os.path.join(DIRECTORY, name), "rb").read() for name in ("server.key", "server.crt")]
    credentials = grpc.ssl_server_credentials([tuple(files)])
    if "grpc" in OPTIONS and server.add_secure_port("127.0.0.1:" + OPTIONS["grpc"], credentials) == 0:
        sys.exit("the port is taken")
    if "plain" in OPTIONS and server.add_insecure_port("127.0.0.1:" + OPTIONS["plain"]) == 0:
        sys.exit("the port is taken")
    server.start()
stand.serve(Google, PORT, DIRECTORY)
