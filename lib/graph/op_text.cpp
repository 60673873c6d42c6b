#include "graph/op_text.h"

#include "base/error.h"

namespace trainer::graph {
namespace {

std::string pair(const std::array<std::int64_t, 2>& both) {
  return both[0] == both[1] ? std::to_string(both[0]) : concat(both[0], "x", both[1]);
}

}  // namespace

std::string words(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!part.empty()) joined += (joined.empty() ? "" : " ") + part;
  }
  return joined;
}

std::string flag(bool set, const char* name) { return set ? name : ""; }

std::string activation_text(const Activation& activation) {
  if (activation.linear()) return "";
  if (activation.alpha == 0) return to_string(activation.kind);
  return concat(to_string(activation.kind), " ", activation.alpha);
}

std::string window_text(const Window& w) {
  const std::array<std::int64_t, 2> one{1, 1}, zero{0, 0};
  std::string result = concat(w.size[0], "x", w.size[1]);
  if (w.stride != one) result += " stride " + pair(w.stride);
  if (w.dilation != one) result += " dilation " + pair(w.dilation);
  if (w.pad_before != zero || w.pad_after != zero) {
    result += concat(" pad ", w.pad_before[0], ",", w.pad_after[0], ",", w.pad_before[1], ",",
                     w.pad_after[1]);
  }
  return result;
}

}  // namespace trainer::graph
