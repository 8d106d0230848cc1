"""A server and clients of gRPC with the library of Google: every call is checked by the client, its trailers too.

Usage: grpc_peers.py serve PORT
       grpc_peers.py call PORT ROUNDS [CERTIFICATE]

`call` makes ROUNDS rounds of calls in each of four threads, and prints one JSON line: how many calls of each kind were as they should be, and
what was not.
"""

import json
import os
import sys
import threading
from concurrent import futures

import grpc

LIMIT = 100


def serve(port):
    def echo(request, context):
        context.set_trailing_metadata((("x-length", str(len(request))), ("x-bytes-bin", b"\x00\xff")))
        if request == b"fail":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no: 100%\n\u00e9")
        return request

    def stream(requests, context):
        context.send_initial_metadata((("x-first", "yes"),))
        count = 0
        for request in requests:
            count += 1
            yield request
        context.set_trailing_metadata((("x-count", str(count)),))

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo), "Stream": grpc.stream_stream_rpc_method_handler(stream)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("peers.Peers", methods),))
    if server.add_insecure_port("127.0.0.1:" + port) == 0:
        sys.exit("the port is taken")
    server.start()
    server.wait_for_termination()


class Client:
    def __init__(self, channel):
        self.echo = channel.unary_unary("/peers.Peers/Echo")
        self.stream = channel.stream_stream("/peers.Peers/Stream")
        self.right = {"unary": 0, "failed": 0, "stream": 0, "cancelled": 0}
        self.wrong = []
        self.lock = threading.Lock()

    def expect(self, kind, *pairs):
        with self.lock:
            differences = [repr(pair)[:200] for pair in pairs if pair[0] != pair[1]]
            self.wrong += differences
            self.right[kind] += not differences

    def round(self, size):
        body = os.urandom(size)
        answer, call = self.echo.with_call(body, timeout=LIMIT)
        trailers = dict(call.trailing_metadata())
        self.expect("unary", (answer, body), (trailers.get("x-length"), str(size)), (trailers.get("x-bytes-bin"), b"\x00\xff"))
        try:
            self.echo(b"fail", timeout=LIMIT)
            self.expect("failed", ("OK", "FAILED_PRECONDITION"))
        except grpc.RpcError as error:
            self.expect("failed", (error.code().name, "FAILED_PRECONDITION"), (error.details(), "no: 100%\n\u00e9"))
        parts = [os.urandom(number * size // 20) for number in range(20)]
        call = self.stream(iter(parts), timeout=LIMIT)
        answers = list(call)
        first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
        self.expect("stream", (answers, parts), (first.get("x-first"), "yes"), (last.get("x-count"), "20"))
        done = threading.Event()

        def open_end():
            yield b"a"
            done.wait(LIMIT)

        call = self.stream(open_end(), timeout=LIMIT)
        first = next(call)
        call.cancel()
        done.set()
        self.expect("cancelled", (first, b"a"), (call.code(), grpc.StatusCode.CANCELLED))

    def work(self, rounds):
        try:
            for number in range(rounds):
                # Also nothing, and more than a window.
                self.round([100, 0, 70_000, 1, 900_000][number % 5])
        except Exception as error:
            with self.lock:
                self.wrong.append(repr(error))


def call(port, rounds, certificate=None):
    if certificate is None:
        channel = grpc.insecure_channel("127.0.0.1:" + port)
    else:
        with open(certificate, "rb") as file:
            channel = grpc.secure_channel("localhost:" + port, grpc.ssl_channel_credentials(file.read()))
    client = Client(channel)
    threads = [threading.Thread(target=client.work, args=(int(rounds),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"right": client.right, "wrong": client.wrong}))


{"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
