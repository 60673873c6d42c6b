#include "config/support.h"

namespace trainer::config {

std::string rich_config() {
  return R"(
name: "a \"rich\" one: $$5 \\ \x07"
seed: 18446744073709551615
model:
  input: [32, 24, 3]
  layers:
    - zero_pad: 1
    - zero_pad: {padding: [1, 2, 3, 4], name: z}
    - conv: {filters: 32, kernel_size: [3, 5], strides: 2, padding: same, dilation_rate: 1, groups: 4,
             activation: relu6, use_bias: false, kernel_initializer: he_normal,
             bias_initializer: {constant: {value: 0.1}}, kernel_regularizer: {l2: 1.0e-4},
             name: c1, inputs: [z]}
    - depthwise_conv: {depth_multiplier: 2, padding: [0, 1, 0, 1],
                       depthwise_initializer: {random_uniform: {low: -0.1, high: 0.2}}}
    - separable_conv: {filters: 8, name: s,
                       pointwise_initializer: {truncated_normal: {mean: 0.5, stddev: 2}}}
    - max_pool: 2
    - average_pool: {pool_size: [2, 1], strides: 1, padding: same}
    - batch_norm: {momentum: 0.9, epsilon: 1.0e-5, center: false, gamma_initializer: zeros, name: b}
    - batch_norm
    - activation: leaky_relu
    - activation: {function: elu, alpha: 0.7, name: e}
    - add: {inputs: [b, e], name: sum}
    - concatenate: {inputs: [sum, e]}
    - reshape: [4, -1]
    - reshape: {target_shape: [2, 2, -1]}
    - dropout: 0.25
    - dropout
    - layer_norm: {epsilon: 0.5, center: false, name: l}
    - group_norm: 4
    - up_sampling: {size: [1, 2], interpolation: bilinear}
    - conv_transpose: {filters: 8, kernel_size: 2, strides: [2, 1], padding: same, activation: selu,
                       kernel_regularizer: {l1: 0.25, l2: 0.5}}
    - prelu: {shared: true, alpha_initializer: ones}
    - spatial_dropout: 0.3
    - drop_path: {rate: 0.2, name: d}
    - layer_scale: 0.5
    - global_response_norm: 1.0e-5
    - activation: hard_swish
    - multiply: {inputs: [d, l]}
    - global_average_pool: {inputs: [e], keepdims: true}
    - global_max_pool
    - flatten
    - dense: 7
  loss: binary_cross_entropy
  label_smoothing: 0.1
data:
  format: npz
  path: /data/${SET:-default set}
  classes: [no, "010", "a: b", cat]
  num_classes: 4
  train: {path: all.npz, augment: [mixup: 0.2, cutmix]}
  test: {path: t.npz, images: x, labels: y}
  validation_split: 0.1
  limit: 100
  normalize: {scale: 1, mean: [0.1, 0.2, 0.3], std: 0.5}
  shuffle: false
  prefetch: 3
  threads: 2
optimizer: {rmsprop: {learning_rate: 5.0e-4, centered: true}, global_clip_norm: 1.5, accumulate: 2, ema: 0.99}
schedule: {exponential: {decay_every: 100 steps, decay_rate: 0.5}, warm_up: {over: 0.5 epochs}}
train: {max_steps: 1000, batch_size: 16, precision: bf16, early_stop: {metric: validation/accuracy}}
parallel: {strategy: all_reduce, device: cpu, gpus: [0, 0], replicas: 2, lr_scaling: sqrt, shard: sample, evaluate: false, reduction: ordered, micro_batches: 16, bucket_mb: 0.5, batch_norm: {sync: true}, deterministic: false, pin: true, threads: 3, lanes: 2, convolution: winograd, autotune: true, timeout: 5 seconds, collective: ring}
evaluate: {batch_size: 100, top_k: 2, start_delay_secs: 1.5, throttle_secs: 0, timeout_secs: 60}
run: {dir: runs/x, checkpoint_every: 30 seconds, keep: 5, best: "", evaluate_every: 1.5 epochs, tensorboard: false}
)";
}

}  // namespace trainer::config
