"""Training images/second of the article's CNN: trainer, PyTorch and Keras/TensorFlow in one run on this machine.

Each peer is first probed at its settings (layout, eager or compiled, malloc, threads that spin or sleep), then its best one is measured in rounds that
alternate with trainer, so that all meet the same machine. Ends with `ratio NAME VALUE`: ours / the best peer's, medians.
"""

import argparse
import statistics
import sys

from common import CONFIG, MALLOC, Peer, find_trainer, summary, trainer_speed

MODES = {
    "torch": [{"mode": mode, "channels_last": last} for mode in ("eager", "compile") for last in (True, False)],
    "keras": [{"mode": "graph"}, {"mode": "graph", "inter_op": 2}, {"mode": "xla"}],
}
WAITS = {"torch": ["default", "passive"], "keras": ["default"]}


def probe(script, shared, seconds, show):
    """The fastest setting: first the mode, then malloc and the threads' waiting with that mode."""
    found = {}

    def speed(setting):
        key = tuple(sorted(setting.items()))
        if key not in found:
            try:
                peer = Peer(script, **shared, **setting)
                peer.wait_for("ready")
                found[key] = max(peer.measure(seconds), peer.measure(seconds))
                peer.close()
            except RuntimeError as error:
                print(error, file=sys.stderr)
                found[key] = 0.0
            show(f"    probe {found[key]:8.0f} images/s  {script} {setting}")
        return found[key]

    mode = max(MODES[script], key=lambda mode: speed({**mode, "malloc": "no-mmap", "wait": WAITS[script][-1]}))
    mallocs = [{**mode, "malloc": malloc, "wait": WAITS[script][-1]} for malloc in MALLOC]
    best = max(mallocs, key=speed)
    best = max(({**best, "wait": wait} for wait in WAITS[script]), key=speed)
    if speed(best) == 0.0:
        sys.exit(f"{script} could not be measured")
    return best


def compare(trainer, options, batch, precision):
    name = f"{'fp32' if precision == 'float32' else 'bf16'}_batch{batch}"
    print(f"{name}:", flush=True)
    shared = {"batch": batch, "precision": precision}
    peers = {}
    for script in options.peers:
        best = probe(script, shared, options.probe_seconds, lambda line: print(line, flush=True))
        peers[script] = Peer(script, **shared, **best)
        peers[script].wait_for("ready")
        print(f"  best of {script}: {best}", flush=True)

    figures = {script: [] for script in peers}
    if trainer:
        figures["trainer"] = []
    for _ in range(options.rounds):
        for script, peer in peers.items():
            figures[script].append(peer.measure(options.seconds))
        if trainer:
            figures["trainer"].append(trainer_speed(trainer, CONFIG, batch=batch, precision=precision))
    for peer in peers.values():
        peer.close()
    for script, values in figures.items():
        print(f"  {script:8} {summary(values)}", flush=True)
    if not trainer or not peers:
        return None
    best = max(statistics.median(figures[script]) for script in peers)
    return name, statistics.median(figures["trainer"]) / best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--peers-only", action="store_true", help="measure the peers without trainer")
    parser.add_argument("--peers", nargs="*", choices=sorted(MODES), default=["torch", "keras"])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each peer in each round")
    parser.add_argument("--probe-seconds", type=float, default=1.5)
    options = parser.parse_args()
    trainer = None if options.peers_only else find_trainer(options.trainer)
    ratios = [compare(trainer, options, batch, precision) for precision in options.precision for batch in options.batch]
    for ratio in filter(None, ratios):
        print(f"ratio {ratio[0]} {ratio[1]:.2f}")


if __name__ == "__main__":
    main()
