// A line for the user beside the results of a command.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/spelling.h"

namespace trainer {

struct Notice {
  enum class Kind {
    kWarning,  // something may be wrong
    kNote,     // a fact; nothing is wrong
  };
  std::string text;  // does not name its kind; "" if there is nothing to report
  Kind kind = Kind::kWarning;

  Notice() = default;
  Notice(std::string warning) : text(std::move(warning)) {}  // NOLINT(google-explicit-constructor)
  Notice(const char* warning) : text(warning) {}             // NOLINT(google-explicit-constructor)
  static Notice note(std::string text) {
    Notice notice(std::move(text));
    notice.kind = Kind::kNote;
    return notice;
  }
};

// Shows a notice to the user; does nothing for an empty text.
using Warn = std::function<void(const Notice&)>;

constexpr auto spellings(Notice::Kind) {
  using enum Notice::Kind;
  return std::to_array<Spelling<Notice::Kind>>({{kWarning, "warning"}, {kNote, "note"}});
}

}  // namespace trainer
