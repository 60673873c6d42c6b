#include "commands/evaluate/thresholds.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

Path thresholds_path(const OpenedModel& opened) { return Path(opened.path) / "thresholds.json"; }

[[noreturn]] void fail_to_read(const Path& path, const std::string& why) {
  throw DataError(path.string(), concat(why,
                                        "; remove it, or find thresholds anew with `trainer "
                                        "evaluate RUN --thresholds f1`"));
}

}  // namespace

LabelThresholds find_thresholds(const OpenedModel& opened,
                                const engine::MultiLabelAccumulator& scores,
                                const engine::ThresholdGoal& goal) {
  LabelThresholds found{engine::to_string(goal), opened.step};
  const std::size_t labels = opened.classes.size(), samples = scores.logits().size() / labels;
  std::vector<float> own(samples), targets(samples);
  for (std::size_t label = 0; label < labels; ++label) {
    for (std::size_t i = 0; i < samples; ++i) {
      own[i] = scores.logits()[i * labels + label];
      targets[i] = scores.targets()[i * labels + label];
    }
    const std::optional<double> threshold = engine::find_threshold(own, targets, goal);
    if (!threshold) found.kept.push_back(opened.classes[label]);
    found.logits.push_back(threshold.value_or(0));
  }
  return found;
}

void write_thresholds(const OpenedModel& opened, const LabelThresholds& thresholds) {
  if (!std::filesystem::is_directory(opened.path)) {
    throw ConfigError(
        {}, concat("--thresholds writes into a run folder, and ", opened.path, " is not one"));
  }
  Json labels = Json::array();
  for (std::size_t i = 0; i < thresholds.logits.size(); ++i) {
    const double logit = thresholds.logits[i];
    labels.push_back({{"label", opened.classes[i]},
                      {"probability", 1 / (1 + std::exp(-logit))},
                      {"logit", logit}});
  }
  const Json json{{"goal", thresholds.goal},
                  {"split", "validation"},
                  {"step", thresholds.step},
                  {"labels", std::move(labels)}};
  write_file_atomic(thresholds_path(opened), to_json_line(json) + "\n");
}

LabelThresholds read_thresholds(const OpenedModel& opened) {
  LabelThresholds result;
  result.step = opened.step;
  result.logits.resize(opened.classes.size());
  const Path path = thresholds_path(opened);
  if (!std::filesystem::is_regular_file(path)) return result;
  const std::string text = read_text_file(path);
  if (!is_shallow_json(text)) fail_to_read(path, "is not JSON");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("labels") || !json["labels"].is_array() ||
      !json.contains("step") || !json.contains("goal") || !json["goal"].is_string()) {
    fail_to_read(path, "does not have the goal, the step and the labels of thresholds");
  }
  const std::optional<std::int64_t> step = whole_number(json["step"]);
  if (!step) fail_to_read(path, "has a step that is not a number");
  result.goal = json["goal"].get<std::string>();
  result.step = *step;
  std::vector<std::string> names;
  result.logits.clear();
  for (const Json& label : json["labels"]) {
    if (!label.is_object() || !label.contains("label") || !label["label"].is_string() ||
        !label.contains("logit") || !label["logit"].is_number()) {
      fail_to_read(path, "has a label without its name or its logit");
    }
    names.push_back(label["label"].get<std::string>());
    result.logits.push_back(label["logit"].get<double>());
  }
  if (names != opened.classes) {
    fail_to_read(
        path, concat("has the labels ", join(names), ", but the run has ", join(opened.classes)));
  }
  if (result.step != opened.step) {
    opened.warn(Notice::note(concat(path.string(), ": was found for the checkpoint of step ",
                                    result.step, ", and this one is of step ", opened.step)));
  }
  return result;
}

void add_thresholds(const OpenedModel& opened,
                    std::vector<std::pair<std::string, std::string>>& metadata) {
  metadata.emplace_back("thresholds", to_json_line(read_thresholds(opened).logits));
}

}  // namespace trainer::commands
