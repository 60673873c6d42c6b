// The files that give `predict` no prediction.
#include "commands/predict/skipped_files.h"

#include <doctest/doctest.h>

#include <sstream>

namespace trainer::commands::skipped_files_test {
namespace {

struct Recorded {
  std::ostringstream out, errors;
  std::vector<std::string> lines;
  Context context{{}, "trainer", out, errors};

  Recorded() {
    context.warn = [this](const Notice& notice) { lines.push_back(notice.text); };
  }
};

using Lines = std::vector<std::string>;

std::vector<inference::PredictionInput> make_inputs(std::int64_t unreadable) {
  std::vector<inference::PredictionInput> inputs(2);
  inputs[1].unreadable = unreadable;
  return inputs;
}

TEST_CASE("SkippedFiles: no file means exit code 0 and no line") {
  Recorded recorded;
  const SkippedFiles skipped(OnError::kName, false, recorded.context);
  CHECK(skipped.exit_code(make_inputs(0)) == kExitOk);
  CHECK(recorded.lines.empty());
}

TEST_CASE("SkippedFiles: files are named and counted, with the code of a data error") {
  Recorded recorded;
  SkippedFiles skipped(OnError::kName, false, recorded.context);
  skipped.add("skipped: a.png");
  CHECK(skipped.exit_code(make_inputs(0)) == kExitData);
  skipped.add("skipped: b.png");
  CHECK(skipped.exit_code(make_inputs(0)) == kExitData);
  CHECK(recorded.lines ==
        Lines{"skipped: a.png", "1 file was skipped", "skipped: b.png", "2 files were skipped"});
}

TEST_CASE("SkippedFiles: quiet prints the number alone") {
  Recorded recorded;
  SkippedFiles skipped(OnError::kName, true, recorded.context);
  skipped.add("skipped: a.png");
  CHECK(skipped.exit_code(make_inputs(0)) == kExitData);
  CHECK(recorded.lines == Lines{"1 file was skipped"});
}

TEST_CASE("SkippedFiles: files to skip are named, with exit code 0") {
  Recorded recorded;
  SkippedFiles skipped(OnError::kSkip, false, recorded.context);
  skipped.add("skipped: a.png");
  CHECK(skipped.exit_code(make_inputs(3)) == kExitOk);
  CHECK(recorded.lines == Lines{"skipped: a.png", "1 file was skipped"});
}

TEST_CASE("SkippedFiles: files that a split has left out have the code of a data error") {
  Recorded recorded;
  for (const OnError on_error : {OnError::kName, OnError::kFail}) {
    CAPTURE(static_cast<int>(on_error));
    const SkippedFiles skipped(on_error, false, recorded.context);
    CHECK(skipped.exit_code(make_inputs(3)) == kExitData);
  }
  CHECK(recorded.lines.empty());
}

}  // namespace
}  // namespace trainer::commands::skipped_files_test
