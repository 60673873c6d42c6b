#!/usr/bin/env python3
"""The article's CNN in Keras on TensorFlow: a compiled loop of steps over a tensor in memory, which is faster than
model.fit. Mode `xla` compiles the step with XLA. See worker.py for the protocol."""

import keras_setup
import worker

options = worker.arguments(("graph", "xla"))
keras, tf = keras_setup.load(options)
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
