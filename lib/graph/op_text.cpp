#include "graph/op_text.h"

namespace trainer::graph {

std::string words(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!part.empty()) joined += (joined.empty() ? "" : " ") + part;
  }
  return joined;
}

std::string flag(bool set, const char* name) { return set ? name : ""; }

}  // namespace trainer::graph
