#!/usr/bin/env python3
"""A loopback server that answers with what it received, as JSON: method, path, headers, body and the client's port.

    server.py [FOLDER]

With FOLDER, it speaks TLS with a certificate of its own, which it writes to FOLDER/certificate.pem. It prints its port.
A path selects another answer:

    /status/503      this status, with a short body
    /redirect        status 307 to /elsewhere
    /redirect/1234   status 307 to http://127.0.0.1:1234/elsewhere
    /slow            the answer after a minute
    /large           3 MB
"""

import http.server
import json
import ssl
import subprocess
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, _, detail = self.path.strip("/").partition("/")
        content = json.dumps(
            {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers.items()),
                "body": body.decode("latin-1"),
                "port": self.client_address[1],
            }
        ).encode()
        if kind == "slow":
            time.sleep(60)
        self.send_response(int(detail) if kind == "status" else 307 if kind == "redirect" else 200)
        if kind == "status":
            content = b"the reason"
        elif kind == "redirect":
            self.send_header("Location", f"http://127.0.0.1:{detail}/elsewhere" if detail else "/elsewhere")
        elif kind == "large":
            content = b"x" * 3_000_000
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *arguments):
        pass


def speak_tls(server, folder):
    key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if len(sys.argv) > 1:
    speak_tls(server, sys.argv[1])
print(server.server_port, flush=True)
server.serve_forever()
