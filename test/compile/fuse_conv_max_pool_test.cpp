// The first convolution and its pooling as one op.
#include <doctest/doctest.h>

#include <string>

#include "compile/models.h"

namespace trainer::compile {

TEST_CASE("fuse_conv_max_pool: two branches, each is fused on its own") {
  Options options = sgd();
  options.capabilities.fuse_conv_max_pool = true;
  options.capabilities.conv_max_pool_channels = 2;  // as many as the images have
  const char* const fusable =
      "conv: {filters: 2, name: c, inputs: [input]}, max_pool: {name: p}, flatten: {name: f}, ";
  for (const char* const other : {
           "conv: {filters: 2, name: a, activation: tanh, inputs: [input]}, max_pool: {name: b}",
           "conv: {filters: 2, name: a, inputs: [input]}, average_pool: {name: b}",
           "conv: {filters: 2, name: a, inputs: [input]}, max_pool: {name: b, pool_size: 3}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, "
           "conv: {filters: 2, padding: same, name: d}, max_pool: {name: e}, "
           "max_pool: {name: q, inputs: [input]}, add: {inputs: [e, q], name: b}",
           "conv: {filters: 2, padding: same, name: a, inputs: [input]}, max_pool: {name: e}, "
           "average_pool: {name: q, inputs: [a]}, add: {inputs: [e, q], name: b}",
       }) {
    const std::string layers =
        concat(other, ", flatten: {name: g}, ", fusable, "concatenate: {inputs: [f, g]}");
    CAPTURE(layers);
    const std::string ops = forward(layers, options);
    CHECK(ops.find("conv_max_pool") != std::string::npos);
    CHECK(ops.find("conv_max_pool") == ops.rfind("conv_max_pool"));
  }
}

TEST_CASE(
    "fuse_conv_max_pool: the first convolution and its pooling, fused where the backend can") {
  Options options = sgd();
  options.capabilities.fuse_conv_max_pool = true;
  const auto fuses = [&](const std::string& layers) {
    return forward(layers, options).find("conv_max_pool") != std::string::npos;
  };
  CHECK(fuses("conv: {filters: 2, activation: relu}, max_pool"));
  CHECK(fuses("conv: {filters: 2, padding: same}, max_pool"));
  CHECK(fuses("zero_pad: {padding: 1}, conv: {filters: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, activation: tanh}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, strides: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, dilation_rate: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, groups: 2}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2, kernel_size: 2}, max_pool"));
  CHECK(fuses("conv: {filters: 2, kernel_size: 5}, max_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, average_pool"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {pool_size: 3, strides: 2}"));
  CHECK_FALSE(fuses("conv: {filters: 2}, max_pool: {padding: [1, 1, 1, 1]}"));
  CHECK_FALSE(fuses("batch_norm, conv: {filters: 2}, max_pool"));
  CHECK_FALSE(
      fuses("conv: {filters: 2, padding: same, name: a}, max_pool: {name: b}, "
            "average_pool: {name: c, inputs: [a]}, add: {inputs: [b, c]}"));
  options.capabilities.conv_max_pool_channels = 1;
  CHECK_FALSE(fuses("conv: {filters: 2, activation: relu}, max_pool"));
}

}  // namespace trainer::compile
