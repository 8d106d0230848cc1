"""Opens sockets as systemd does for a socket unit, and becomes the program that they are for.

Usage: socket_activation.py NAME=ADDRESS … -- PROGRAM ARGUMENT …; an ADDRESS is a port of the loopback or a path."""

import os
import socket
import sys

end = sys.argv.index("--")
names = []
for number, wanted in enumerate(sys.argv[1:end]):
    name, address = wanted.split("=", 1)
    if address.isdigit():
        opened = socket.create_server(("127.0.0.1", int(address)))
    else:
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(address)
        opened.listen()
    # Descriptors are handed over from 3 on; the ones of the sockets themselves are kept out of the way.
    kept = os.dup(opened.detach()) if opened.fileno() == 3 + number else opened.detach()
    os.dup2(kept, 3 + number)
    names.append(name)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(len(names))
os.environ["LISTEN_FDNAMES"] = ":".join(names)
os.execv(sys.argv[end + 1], sys.argv[end + 1 :])
