#include "graph/window.h"

#include "base/error.h"

namespace trainer::graph {
namespace {

std::string pair(const std::array<std::int64_t, 2>& both) {
  return both[0] == both[1] ? std::to_string(both[0]) : concat(both[0], "x", both[1]);
}

}  // namespace

std::int64_t Window::output(std::int64_t input, int axis) const {
  const std::int64_t extent = (size[axis] - 1) * dilation[axis] + 1;
  const std::int64_t room = input + pad_before[axis] + pad_after[axis] - extent;
  return room < 0 ? 0 : room / stride[axis] + 1;
}

std::string Window::text() const {
  const std::array<std::int64_t, 2> one{1, 1}, zero{0, 0};
  std::string result = concat(size[0], "x", size[1]);
  if (stride != one) result += " stride " + pair(stride);
  if (dilation != one) result += " dilation " + pair(dilation);
  if (pad_before != zero || pad_after != zero) {
    result +=
        concat(" pad ", pad_before[0], ",", pad_after[0], ",", pad_before[1], ",", pad_after[1]);
  }
  return result;
}

}  // namespace trainer::graph
