"""Keras on TensorFlow, set up as the benchmark's options say."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def load(options):
    """Imports both, which takes seconds, only once the options are known to be right."""
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
    keras.utils.set_random_seed(0)
    if options.precision == "bfloat16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return keras, tf
