#!/usr/bin/env python3
"""OpenVINO on a model that `trainer export --format onnx` wrote, in float32 and for one size of batch. `latency`: all threads work on
a call; `throughput`: the batch is divided among requests side by side."""

import transfer_worker
import zoo_worker

options = zoo_worker.arguments(("latency", "throughput"))

import numpy  # noqa: E402
import openvino  # noqa: E402

requests = min(options.threads, options.batch) if options.mode == "throughput" else 1
core = openvino.Core()
model = core.read_model(options.model)
model.reshape([options.batch // requests, *list(model.input().partial_shape)[1:]])
compiled = core.compile_model(model, "CPU", {
    "PERFORMANCE_HINT": options.mode.upper(), "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": options.threads,
    "NUM_STREAMS": requests,
})
type_ = model.input().element_type.to_dtype()
images = numpy.random.default_rng(0).integers(0, 256, (options.batch // requests, options.side, options.side, 3)).astype(type_)
queue = openvino.AsyncInferQueue(compiled, requests)
for each in queue:
    each.set_input_tensor(openvino.Tensor(images))


def predict():
    for _ in range(requests):
        queue.start_async()
    queue.wait_all()


transfer_worker.serve(predict, options.batch // requests * requests)
