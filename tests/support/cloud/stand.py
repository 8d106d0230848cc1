"""What the stand-ins for cloud services share: a certificate authority, output, and a server of HTTP that is a proxy as well.

A client that is told to use the server as its proxy reaches it under every name, with TLS.
"""

import datetime
import http.server
import ipaddress
import json
import os
import socket
import ssl
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCK = threading.Lock()


def tell(**line):
    """Prints a line of JSON."""
    with LOCK:
        print(json.dumps(line), flush=True)


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificates(directory, names, others=None):
    """Writes ca.crt, server.crt and server.key for names, URIs and addresses; `others` are more certificates by the name of their files."""
    def certificate(subject, key, issuer, signer, extension, critical):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).add_extension(extension, critical=critical)
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        return builder.not_valid_after(now + datetime.timedelta(days=30)).sign(signer, hashes.SHA256())

    def called(name):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def alternative(name):
        if "://" in name:
            return x509.UniformResourceIdentifier(name)
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    root_key = ec.generate_private_key(ec.SECP256R1())
    root = certificate(called("root"), root_key, called("root"), root_key, x509.BasicConstraints(True, None), True)
    files = []
    for file, of in {"server": names, **(others or {})}.items():
        key = ec.generate_private_key(ec.SECP256R1())
        leaf_names = x509.SubjectAlternativeName([alternative(name) for name in of])
        leaf = certificate(called(file), key, called("root"), root_key, leaf_names, False)
        files += [(file + ".key", pem(key)), (file + ".crt", leaf.public_bytes(serialization.Encoding.PEM))]
    for name, content in files + [("ca.crt", root.public_bytes(serialization.Encoding.PEM))]:
        path = os.path.join(directory, name)
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.rename(path + ".new", path)


class Handler(http.server.BaseHTTPRequestHandler):
    """Requests, directly and through CONNECT. `answer` returns status, headers and body."""

    protocol_version = "HTTP/1.1"
    context = None
    is_secure = False

    def do_CONNECT(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb")
        self.is_secure = True

    def respond(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {key.lower(): value for key, value in self.headers.items()}
        status, more, content = self.answer(self.command, self.path, headers, body)
        self.send_response(status)
        for key, value in more.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = respond

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        # A client that left.
        pass


def serve(handler, port, directory):
    """Serves forever; the files of `certificates` are in the directory."""
    handler.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    handler.context.load_cert_chain(os.path.join(directory, "server.crt"), os.path.join(directory, "server.key"))
    handler.context.set_alpn_protocols(["http/1.1"])
    Server.request_queue_size = socket.SOMAXCONN
    Server(("127.0.0.1", port), handler).serve_forever()
