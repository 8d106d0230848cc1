"""An adapter out of process that answers by a script, reads requests by the descriptors of their templates, and prints them.

Usage: process.py PORT DIRECTORY SCRIPT FILES [plain|tls|mutual] [oauth=PORT]

SCRIPT is a file with JSON, read for each call: {METHOD: {"response": {...}} or {"hex": "..."} or {"error": {"code", "message"}}}, with
an optional "delay" in seconds. FILES is a directory: every text in its files that is a descriptor set in base64 is known. Calls of other
methods are printed as bytes. DIRECTORY gets ca.crt, mixer.key, mixer.crt, token and oauth-secret. oauth=PORT: a token endpoint.
"""

import base64
import json
import os
import re
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

import stand

PORT, DIRECTORY, SCRIPT, FILES = int(sys.argv[1]), *sys.argv[2:5]
SECURITY = sys.argv[5] if len(sys.argv) > 5 else "plain"
OPTIONS = dict(option.split("=") for option in sys.argv[6:])
SPIFFE = "spiffe://cluster.local/ns/istio-system/sa/mixer"


def sets():
    """The descriptor sets in all files."""
    for root, _, names in os.walk(FILES):
        for name in sorted(names):
            with open(os.path.join(root, name), errors="replace") as file:
                for text in re.findall("[A-Za-z0-9+/]{40,}={0,2}", file.read()):
                    try:
                        found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text))
                    except Exception:
                        continue
                    if found.file:
                        yield found


def pool_of(first, others):
    """The types of a set, and those of others that do not contradict them."""
    pool, known = descriptor_pool.DescriptorPool(), set()
    for group in [first] + [other for other in others if other is not first]:
        for file in group.file:
            if file.name in known:
                continue
            known.add(file.name)
            try:
                pool.Add(file)
                pool.FindFileByName(file.name)
            except Exception:
                if group is first:
                    raise
    return pool


def methods():
    """Input and output of every method, with the pool of their types."""
    found, all_sets = {}, list(sets())
    for one in all_sets:
        for file in one.file:
            for service in file.service:
                pool = pool_of(one, all_sets)
                described = pool.FindServiceByName(file.package + "." + service.name)
                for method in described.methods:
                    path = "/%s/%s" % (described.full_name, method.name)
                    found[path] = (
                        message_factory.GetMessageClass(method.input_type),
                        message_factory.GetMessageClass(method.output_type), pool)
    return found


METHODS = methods()


def answer_of(path, output):
    with open(SCRIPT) as file:
        script = json.load(file).get(path, {})
    time.sleep(script.get("delay", 0))
    if "error" in script:
        return None, script["error"]
    if "hex" in script:
        return bytes.fromhex(script["hex"]), None
    if output is None:
        return b"", None
    kind, pool = output
    return json_format.ParseDict(script.get("response", {}), kind(), descriptor_pool=pool).SerializeToString(), None


class Any(grpc.GenericRpcHandler):
    def service(self, details):
        path = details.method

        def call(request, context):
            line = {"method": path, "metadata": dict(context.invocation_metadata()), "hex": request.hex(), "error": None}
            output = None
            if path in METHODS:
                kind, answered, pool = METHODS[path]
                output = (answered, pool)
                try:
                    line["request"] = json_format.MessageToDict(
                        kind.FromString(request), preserving_proto_field_name=True, descriptor_pool=pool)
                except Exception as error:
                    line["error"] = repr(error)
            line["outcome"] = "taken"
            line["left"] = context.time_remaining()
            stand.tell(**line)
            answer, error = answer_of(path, output)
            if error:
                context.abort(getattr(grpc.StatusCode, error["code"]), error["message"])
            return answer

        return grpc.unary_unary_rpc_method_handler(call)


class TokenEndpoint(stand.Handler):
    def answer(self, method, path, headers, body):
        stand.tell(method=method, path=path, headers=headers, body=body.decode(), outcome="token", error=None)
        content = {"access_token": "AT1", "token_type": "Bearer", "expires_in": 3600}
        return 200, {"content-type": "application/json"}, json.dumps(content).encode()


def main():
    stand.certificates(
        DIRECTORY, ["localhost", "127.0.0.1"] if SECURITY == "tls" else [SPIFFE], {"mixer": [SPIFFE]})
    for name, content in (("token", "tok-123"), ("oauth-secret", "s3cret")):
        with open(os.path.join(DIRECTORY, name), "w") as file:
            file.write(content)
    if "oauth" in OPTIONS:
        endpoint = stand.Server(("127.0.0.1", int(OPTIONS["oauth"])), TokenEndpoint)
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), handlers=[Any()])
    address = "127.0.0.1:%d" % PORT
    if SECURITY == "plain":
        server.add_insecure_port(address)
    else:
        read = lambda name: open(os.path.join(DIRECTORY, name), "rb").read()
        is_mutual = SECURITY == "mutual"
        server.add_secure_port(address, grpc.ssl_server_credentials(
            [(read("server.key"), read("server.crt"))], read("ca.crt") if is_mutual else None, is_mutual))
    server.start()
    server.wait_for_termination()


main()
