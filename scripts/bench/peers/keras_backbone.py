#!/usr/bin/env python3
"""The articles' transfer learning in Keras on TensorFlow: keras.applications' networks with random weights, frozen layers
not trainable, a compiled step over a tensor in memory. Mode `xla` compiles the step with XLA."""

import keras_setup
import transfer_worker

options = transfer_worker.arguments(("graph", "xla"))
keras, tf = keras_setup.load(options)
layers = keras.layers
SAMPLES, SHAPE = transfer_worker.SAMPLES, transfer_worker.SHAPE
if options.case == "vgg16":
    backbone = keras.applications.VGG16(weights=None, include_top=False, input_shape=SHAPE)
    for layer in backbone.layers[:-4]:
        layer.trainable = False
    model = keras.Sequential([backbone, layers.Flatten(), layers.Dense(4, dtype="float32")])
    labels = tf.random.uniform((SAMPLES,), maxval=4, dtype=tf.int32)
    loss_of = tf.nn.sparse_softmax_cross_entropy_with_logits
else:
    backbone = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=SHAPE)
    model = keras.Sequential([
        backbone, layers.GlobalAveragePooling2D(), layers.Dense(512, activation="relu"), layers.Dropout(0.5),
        layers.Dense(1, dtype="float32"),
    ])
    labels = tf.cast(tf.random.uniform((SAMPLES, 1), maxval=2, dtype=tf.int32), tf.float32)
    loss_of = tf.nn.sigmoid_cross_entropy_with_logits
optimizer = keras.optimizers.Adam(transfer_worker.LEARNING_RATE)
optimizer.build(model.trainable_variables)
images = tf.cast(tf.random.uniform((SAMPLES, *SHAPE), maxval=256, dtype=tf.int32), tf.uint8)


@tf.function(jit_compile=options.mode == "xla")
def update(x, y):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([variable.value for variable in model.trainable_variables])
        logits = model(x, training=True)
        loss = tf.reduce_mean(loss_of(labels=y, logits=logits))
    optimizer.apply(tape.gradient(loss, model.trainable_variables))


@tf.function
def train_on(index):
    update(tf.cast(tf.gather(images, index), tf.float32) / 255, tf.gather(labels, index))


order, position = tf.random.shuffle(tf.range(SAMPLES)), 0


def step():
    global order, position
    if position + options.batch > SAMPLES:
        order, position = tf.random.shuffle(tf.range(SAMPLES)), 0
    index = order[position : position + options.batch]
    position += options.batch
    train_on(index)
    optimizer.iterations.numpy()  # waits for the update


transfer_worker.serve(step, options.batch)
