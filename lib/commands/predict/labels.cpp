#include "commands/predict/labels.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "base/formats/csv.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

double probability(float logit) { return sigmoid(static_cast<double>(logit)); }

}  // namespace

LabelWriter::LabelWriter(const std::string& format, const std::vector<std::string>& labels,
                         std::vector<double> thresholds,
                         const std::vector<inference::PredictionInput>& inputs, bool logits,
                         std::ostream& out)
    : format_(format),
      thresholds_(std::move(thresholds)),
      has_logits_(logits),
      has_files_(inputs.size() > 1),
      out_(out) {
  for (const std::string& label : labels) labels_.push_back(printable(label));
  for (const inference::PredictionInput& input : inputs) {
    has_known_ = has_known_ || input.dataset().spec().is_multi_label();
    has_files_ = has_files_ || input.one_per_file;
    for (std::int64_t i = 0; i < (input.one_per_file ? input.dataset().size() : 1); ++i) {
      file_width_ = std::max(file_width_, printable(input.name_of(i)).size());
    }
  }
}

std::vector<std::size_t> LabelWriter::predicted(const results::Output& output) const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < output.logits.size(); ++i) {
    if (static_cast<double>(output.logits[i]) > thresholds_[i]) indices.push_back(i);
  }
  return indices;
}

std::vector<std::size_t> LabelWriter::known(const inference::PredictionInput& input,
                                            const results::Output& output) const {
  const std::span<const std::int32_t> present = input.dataset().label_set_at(output.index).present;
  return {present.begin(), present.end()};
}

std::string LabelWriter::join_names(const std::vector<std::size_t>& indices) const {
  std::string text;
  for (const std::size_t i : indices) text += (text.empty() ? "" : "|") + labels_[i];
  return text;
}

void LabelWriter::header() {
  if (format_ == "csv") {
    out_ << (has_files_ ? "file," : "") << "index,labels" << (has_known_ ? ",label" : "");
    for (const std::string& label : labels_) out_ << ',' << csv_cell("p_" + label);
    for (const std::string& label : labels_) {
      if (has_logits_) out_ << ',' << csv_cell("logit_" + label);
    }
    out_ << '\n';
  } else if (format_ == "table") {
    if (has_files_) out_ << std::left << std::setw(static_cast<int>(file_width_) + 2) << "file";
    out_ << std::right << std::setw(7) << "index"
         << "  labels" << (has_known_ ? "  (right ones)" : "") << (has_logits_ ? "  logits" : "")
         << '\n';
  }
}

void LabelWriter::write(const inference::PredictionInput& input, const results::Output& output) {
  if (format_ == "csv") return write_csv(input, output);
  if (format_ == "jsonl") return write_json(input, output);
  write_table(input, output);
}

void LabelWriter::write_table(const inference::PredictionInput& input,
                              const results::Output& output) {
  if (has_files_) {
    out_ << std::left << std::setw(static_cast<int>(file_width_) + 2)
         << printable(input.name_of(output.index));
  }
  out_ << std::right << std::setw(7) << output.index;
  const std::vector<std::size_t> labels = predicted(output);
  if (labels.empty()) out_ << "  none";
  for (const std::size_t i : labels) {
    out_ << "  " << labels_[i] << ' ' << fixed(probability(output.logits[i]), 4);
  }
  if (input.dataset().spec().is_multi_label()) {
    out_ << "  (" << join_names(known(input, output)) << ')';
  }
  for (const float logit : output.logits) {
    if (has_logits_) out_ << "  " << fixed(static_cast<double>(logit), 4);
  }
  out_ << '\n';
}

void LabelWriter::write_csv(const inference::PredictionInput& input,
                            const results::Output& output) {
  if (has_files_) out_ << csv_cell(input.name_of(output.index)) << ',';
  out_ << output.index << ',' << csv_cell(join_names(predicted(output)));
  if (has_known_) out_ << ',' << csv_cell(join_names(known(input, output)));
  for (const float logit : output.logits) out_ << ',' << csv_number(probability(logit));
  for (const float logit : output.logits) {
    if (has_logits_) out_ << ',' << csv_number(static_cast<double>(logit));
  }
  out_ << '\n';
}

void LabelWriter::write_json(const inference::PredictionInput& input,
                             const results::Output& output) {
  nlohmann::ordered_json json;
  if (has_files_) json["file"] = input.name_of(output.index);
  json["index"] = output.index;
  json["labels"] = nlohmann::ordered_json::array();
  for (const std::size_t i : predicted(output)) json["labels"].push_back(labels_[i]);
  auto& all = json["probabilities"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < output.logits.size(); ++i) {
    append_key(all, labels_[i], probability(output.logits[i]));
  }
  // A label that is unknown is in neither list.
  if (input.dataset().spec().is_multi_label()) {
    auto present = nlohmann::ordered_json::array(), absent = nlohmann::ordered_json::array();
    const data::LabelSet labels = input.dataset().label_set_at(output.index);
    const auto has = [](std::span<const std::int32_t> list, std::size_t label) {
      return std::ranges::binary_search(list, static_cast<std::int32_t>(label));
    };
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (has(labels.unknown, i)) continue;
      (has(labels.present, i) ? present : absent).push_back(labels_[i]);
    }
    json["present"] = std::move(present);
    json["absent"] = std::move(absent);
  }
  if (has_logits_) json["logits"] = output.logits;
  out_ << to_json_line(json) << '\n';
}

}  // namespace trainer::commands
