#!/usr/bin/env python3
"""The article's CNN in Keras on TensorFlow: a compiled loop of steps over a tensor in memory, which is faster than
model.fit. Mode `xla` compiles the step with XLA. See worker.py for the protocol."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import worker  # noqa: E402

options = worker.arguments(("graph", "xla"))

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(options.threads)
tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
keras.utils.set_random_seed(0)
if options.precision == "bfloat16":
    keras.mixed_precision.set_global_policy("mixed_bfloat16")

layers = keras.layers
model = keras.Sequential([
    keras.Input((28, 28, 1)),
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(64, 3, activation="relu"), layers.Flatten(),
    layers.Dense(64, activation="relu"), layers.Dense(10, dtype="float32"),
])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)

images = tf.random.uniform((worker.SAMPLES, 28, 28, 1))
labels = tf.random.uniform((worker.SAMPLES,), maxval=10, dtype=tf.int32)
PER_EPOCH = worker.SAMPLES // options.batch


@tf.function(jit_compile=options.mode == "xla")
def update(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    optimizer.apply(tape.gradient(loss, model.trainable_variables))


@tf.function
def loop(steps):
    order = tf.random.shuffle(tf.range(worker.SAMPLES))
    for step in tf.range(steps):
        first = step % PER_EPOCH * options.batch
        index = tf.ensure_shape(order[first : first + options.batch], (options.batch,))
        update(tf.gather(images, index), tf.gather(labels, index))


def run(steps):
    loop(tf.constant(steps))
    optimizer.iterations.numpy()  # waits for the last update


worker.serve(run, options.batch, warm_up=20)
