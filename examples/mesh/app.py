"""The app: says which path was asked for, and whether the request still has the header that proxies tell each other attributes with.

Usage: app.py PORT
"""

import http.server
import signal
import sys


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        told = "with" if "x-istio-attributes" in self.headers else "without"
        body = ("orders of %s, %s attributes of proxies\n" % (self.path, told)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), App).serve_forever()
