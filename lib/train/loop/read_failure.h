// Ends a run whose training data cannot be read.
#pragma once

#include <string>

#include "base/error.h"

namespace trainer::train {

class Checkpointer;
struct RunContext;

// The message of this process, and whether any rank has one. A rank that fails continues until all
// ranks have its failure, so that no rank is missing in a collective call.
class ReadFailure {
 public:
  // Runs read() and keeps the message of a DataError.
  template <class Read>
  void guard(const Read& read) {
    try {
      read();
    } catch (const DataError& error) {
      message_ = error.what();
    }
  }

  // The message of this process; "" if it has not failed.
  const std::string& message() const { return message_; }
  void set_message(const std::string& message) { message_ = message; }
  bool any_rank() const { return any_rank_; }
  void set_any_rank(bool any) { any_rank_ = any; }
  void clear() { *this = {}; }

 private:
  std::string message_;
  bool any_rank_ = false;
};

// Saves the last step that was finished, then throws Error with the code of a DataError on a rank
// that has a message, and PeerError on others. Collective.
[[noreturn]] void stop_for_unreadable_data(RunContext& context, Checkpointer& checkpointer);

}  // namespace trainer::train
