// A line that tells the user something beside the results of a command.
#pragma once

#include <string>
#include <utility>

namespace trainer {

struct Notice {
  enum class Kind {
    kWarning,  // something may be wrong
    kNote,     // nothing is
  };
  std::string text;  // without its kind; "" when there is nothing to tell
  Kind kind = Kind::kWarning;

  Notice(std::string warning) : text(std::move(warning)) {}  // NOLINT(google-explicit-constructor)
  Notice(const char* warning) : text(warning) {}             // NOLINT(google-explicit-constructor)
  static Notice note(std::string text) {
    Notice notice(std::move(text));
    notice.kind = Kind::kNote;
    return notice;
  }
};

}  // namespace trainer
