#!/usr/bin/env python3
"""ONNX Runtime on a model that `trainer export --format onnx` wrote, all of its optimisations on."""

import transfer_worker
import zoo_worker

options = zoo_worker.arguments(("cpu",))

import numpy  # noqa: E402
import onnxruntime  # noqa: E402

settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = options.threads
settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
entry = session.get_inputs()[0]
types = {"tensor(uint8)": numpy.uint8, "tensor(float)": numpy.float32}
images = numpy.random.default_rng(0).integers(0, 256, (options.batch, options.side, options.side, 3)).astype(types[entry.type])

transfer_worker.serve(lambda: session.run(None, {entry.name: images}), options.batch)
