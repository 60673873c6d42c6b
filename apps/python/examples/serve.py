#!/usr/bin/env python3
"""Serves the predictions of a run over HTTP, on this machine alone: serve.py RUN [--port 8080]

    curl --data-binary @photo.jpg http://127.0.0.1:8080/predict

answers with the class and the probabilities in JSON, and with "novel" where the run has a limit of novelty. Port 0 takes
a free one; the first line names it. For other machines, put a server with TLS and passwords before it.
"""

import argparse
import http.server
import json

import imagetrainer

MOST_BYTES = 32 << 20


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # of a client that sends nothing

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if self.path != "/predict":
            return self.answer(404, {"error": "expected POST /predict"})
        if not length.isdecimal() or not 0 < int(length) <= MOST_BYTES:
            return self.answer(413, {"error": f"expected an image file of at most {MOST_BYTES} bytes"})
        found = self.server.model.predict(self.rfile.read(int(length)), on_error="nan")
        if found.errors[0] is not None:
            return self.answer(400, {"error": found.errors[0]})
        answer = {"class": found.names[0], "probabilities": dict(zip(found.classes, found.probabilities[0].tolist()))}
        if found.labels is not None:
            answer["labels"] = [name for name, given in zip(found.classes, found.labels[0]) if given]
        if found.novel is not None:
            answer.update(novel=bool(found.novel[0]), distance=float(found.distances[0]))
        return self.answer(200, answer)

    def do_GET(self):
        if self.path != "/health":
            return self.answer(404, {"error": "expected GET /health or POST /predict"})
        return self.answer(200, {"classes": self.server.model.classes, "step": self.server.model.step})

    def answer(self, code, value):
        content = json.dumps(value).encode() + b"\n"
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if code >= 400:
            self.send_header("Connection", "close")  # what the client still sends is not read
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    # A thread per connection: they decode side by side, and take turns on the model.
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.model = imagetrainer.Model(options.run)
    print(f"http://127.0.0.1:{server.server_port}/predict", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
