#include "config/describe/rule_text.h"

#include <cmath>

#include "config/values.h"

namespace trainer::config {

std::string range_text(const Rule& rule) {
  std::string text;
  if (std::isfinite(rule.low)) {
    text = (rule.low_open ? "greater than " : "at least ") + write(rule.low).text;
  }
  if (std::isfinite(rule.high)) {
    text += text.empty() ? "" : " and ";
    text += (rule.high_open ? "less than " : "at most ") + write(rule.high).text;
  }
  return text;
}

}  // namespace trainer::config
