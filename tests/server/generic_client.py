"""A gRPC client that knows nothing of Mixer: it learns services and messages by server reflection, calls one method, and prints
the services and the answer as JSON."""

import argparse
import json

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


def read(path):
    if not path:
        return None
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("service")
    parser.add_argument("method")
    parser.add_argument("message")
    parser.add_argument("--ca")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    options = parser.parse_args()
    if options.ca:
        credentials = grpc.ssl_channel_credentials(read(options.ca), read(options.key), read(options.cert))
        channel = grpc.secure_channel(options.target, credentials)
    else:
        channel = grpc.insecure_channel(options.target)
    try:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = sorted(database.get_services())
        service = DescriptorPool(database).FindServiceByName(options.service)
        method = service.FindMethodByName(options.method)
        request = message_factory.GetMessageClass(method.input_type)()
        response = message_factory.GetMessageClass(method.output_type)
        json_format.Parse(options.message, request)
        call = channel.unary_unary(
            f"/{options.service}/{options.method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        answer = json_format.MessageToDict(call(request, timeout=10))
        print(json.dumps({"services": services, "answer": answer}))
    except grpc.RpcError as error:
        print(json.dumps({"code": error.code().name, "details": error.details()}))


main()
