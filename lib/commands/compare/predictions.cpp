#include "commands/compare/predictions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json_member.h"
#include "base/formats/json_number.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "results/run_files/statistics.h"

namespace trainer::commands {

std::optional<Predictions> read_predictions(const Path& run) {
  using Json = nlohmann::json;
  const Path file = run / "predictions.jsonl";
  if (!std::filesystem::exists(file)) return std::nullopt;
  Predictions predictions;
  std::int64_t number = 0;
  for (const std::string& line : split_text(read_text_file(file), '\n')) {
    ++number;
    if (line.empty()) continue;
    try {
      const Json json = Json::parse(line);
      const std::int64_t index = whole_number(member(json, "index")).value();
      predictions[{json.value("file", ""), index}] = {read_member<std::string>(json, "class"),
                                                      read_member<std::string>(json, "label")};
    } catch (const std::exception&) {
      throw DataError(
          concat(file.string(), ":", number),
          concat("is not a prediction of a labelled sample; write the file with: trainer predict ",
                 shell_word(run.string()), " --json > ", shell_word(file.string())));
    }
  }
  return predictions;
}

std::optional<PairedResult> compare_predictions(const Predictions& first,
                                                const Predictions& second) {
  PairedResult result;
  const bool alike = std::equal(first.begin(), first.end(), second.begin(), second.end(),
                                [](const auto& a, const auto& b) {
                                  return a.first == b.first && a.second.label == b.second.label;
                                });
  if (!alike || first.empty()) return std::nullopt;
  for (const auto& [sample, one] : first) {
    const bool other = second.at(sample).is_right();
    std::int64_t& count = one.is_right() ? (other ? result.both_right : result.only_first)
                                         : (other ? result.only_second : result.both_wrong);
    ++count;
  }
  result.probability = results::mcnemar(result.only_first, result.only_second);
  return result;
}

}  // namespace trainer::commands
