// A stream whose work is done when it is given, and the kernels that plans add to a library's work.
#include <stdexcept>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/add.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/support.h"

namespace fake {

cudaError_t enqueue(cudaStream_t, std::string, std::function<void()> run, double) {
  run();
  return cudaSuccess;
}

}  // namespace fake

namespace trainer::backend::cuda {

using test::find_number;

// Kernels may read and write 16 bytes at a time.
static void check_aligned(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    throw std::logic_error("a kernel's address is not aligned to 16 bytes");
  }
}

void convert(const void* from, DType from_type, void* to, DType to_type, std::int64_t count,
             cudaStream_t stream) {
  for (const void* address : {from, static_cast<const void*>(to)}) check_aligned(address);
  fake::enqueue(stream, "convert", [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      fake::store(to, i, find_number(to_type), fake::load(from, i, find_number(from_type)));
    }
  });
}

void add_bias(void* y, DType type, const float* bias, std::int64_t rows, std::int64_t c,
              cudaStream_t stream) {
  for (const void* address : {static_cast<const void*>(y), static_cast<const void*>(bias)}) {
    check_aligned(address);
  }
  fake::enqueue(stream, "add_bias", [=] {
    for (std::int64_t i = 0; i < rows * c; ++i) {
      fake::store(y, i, find_number(type), fake::load(y, i, find_number(type)) + bias[i % c]);
    }
  });
}

void activate(const graph::Activation&, const void* x, void* y, DType type, std::int64_t count,
              cudaStream_t stream) {
  fake::enqueue(stream, "relu", [=] {
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = fake::load(x, i, find_number(type));
      fake::store(y, i, find_number(type), value < 0 ? 0 : value);
    }
  });
}

}  // namespace trainer::backend::cuda
