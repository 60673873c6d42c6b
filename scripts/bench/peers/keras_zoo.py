#!/usr/bin/env python3
"""keras.applications' backbones with average pooling and a dense layer on TensorFlow, from a tensor of bytes in memory: a compiled
step with SGD and momentum, or a compiled forward pass."""

import keras_setup
import transfer_worker
import zoo_worker

options = zoo_worker.arguments(("graph",))
keras, tf = keras_setup.load(options)
SHAPE = (options.side, options.side, 3)
backbone = getattr(keras.applications, options.case)(weights=None, include_top=False, input_shape=SHAPE, pooling="avg")
model = keras.Sequential([backbone, keras.layers.Dense(zoo_worker.CLASSES)])
images = tf.cast(tf.random.uniform((options.batch, *SHAPE), maxval=256, dtype=tf.int32), tf.uint8)
labels = tf.random.uniform((options.batch,), maxval=zoo_worker.CLASSES, dtype=tf.int32)
optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
optimizer.build(model.trainable_variables)


def pixels():
    return tf.cast(images, tf.float32) / 255


@tf.function
def predict():
    return model(pixels(), training=False)


@tf.function
def update():
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([variable.value for variable in model.trainable_variables])
        logits = tf.cast(model(pixels(), training=True), tf.float32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    optimizer.apply(tape.gradient(loss, model.trainable_variables))


def step():
    if options.predict:
        predict().numpy()
    else:
        update()
        optimizer.iterations.numpy()  # waits for the update


transfer_worker.serve(step, options.batch)
