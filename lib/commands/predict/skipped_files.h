// The files that give `predict` no prediction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands/context/context.h"
#include "inference/predict/predict.h"

namespace trainer::commands {

// What an image file that cannot be read does to the predictions of the others.
enum class OnError {
  kFail,  // they end
  kSkip,  // none
  kName   // none, but the exit code is that of a data error
};

// Counts and names the files that give no prediction.
class SkippedFiles {
 public:
  // `quiet`: names none.
  SkippedFiles(OnError on_error, bool quiet, const Context& context)
      : on_error_(on_error), quiet_(quiet), context_(context) {}

  void add(const std::string& line) {
    ++count_;
    if (!quiet_) context_.warn(line);
  }

  // Warns of their number. Returns the code of a data error if there are some, or if files of a
  // split were left out that the config does not leave out, unless they are to be skipped.
  int exit_code(const std::vector<inference::PredictionInput>& inputs) const {
    if (count_ > 0) {
      context_.warn(concat(count_, count_ == 1 ? " file was skipped" : " files were skipped"));
    }
    const bool all = count_ == 0 && std::ranges::all_of(inputs, [](const auto& input) {
                       return input.unreadable == 0;
                     });
    return all || on_error_ == OnError::kSkip ? kExitOk : kExitData;
  }

 private:
  const OnError on_error_;
  const bool quiet_;
  const Context& context_;
  std::int64_t count_ = 0;
};

}  // namespace trainer::commands
