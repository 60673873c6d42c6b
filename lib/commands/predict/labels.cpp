#include "commands/predict/labels.h"

#include <algorithm>
#include <iomanip>

#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

double probability(float logit) { return sigmoid(static_cast<double>(logit)); }

}  // namespace

LabelWriter::LabelWriter(const std::string& format, const std::vector<std::string>& labels,
                         std::vector<double> thresholds,
                         const std::vector<inference::PredictionInput>& inputs, bool logits,
                         bool novelty, std::ostream& out)
    : LineWriter(format, inputs, out),
      thresholds_(std::move(thresholds)),
      has_logits_(logits),
      has_novelty_(novelty) {
  for (const std::string& label : labels) labels_.push_back(printable(label));
  for (const inference::PredictionInput& input : inputs) {
    has_known_ = has_known_ || input.dataset().spec().is_multi_label();
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

void LabelWriter::write_csv_titles() {
  out_ << ",labels" << (has_novelty_ ? kNoveltyTitles : "") << (has_known_ ? ",label" : "");
  for (const std::string& label : labels_) out_ << ',' << csv_cell("p_" + label);
  for (const std::string& label : labels_) {
    if (has_logits_) out_ << ',' << csv_cell("logit_" + label);
  }
}

void LabelWriter::write_table_titles() {
  out_ << (has_novelty_ ? "  distance" : "") << "  labels" << (has_known_ ? "  (right ones)" : "")
       << (has_logits_ ? "  logits" : "");
}

void LabelWriter::write(const inference::PredictionInput& input, const results::Output& output,
                        const std::optional<results::Novelty>& novelty) {
  if (format_ == "csv") return write_csv(input, output, novelty);
  if (format_ == "jsonl") return write_json(input, output, novelty);
  write_table(input, output, novelty);
}

void LabelWriter::write_table(const inference::PredictionInput& input,
                              const results::Output& output,
                              const std::optional<results::Novelty>& novelty) {
  begin_line(input, output.index);
  std::vector<std::size_t> labels = predicted(output);
  if (novelty) out_ << "  " << std::setw(8) << significant(novelty->distance, 4);
  if (novelty && novelty->is_novel) {
    out_ << "  " << kNoneOfTheClasses;
    labels.clear();
  } else if (labels.empty()) {
    out_ << "  none";
  }
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

void LabelWriter::write_csv(const inference::PredictionInput& input, const results::Output& output,
                            const std::optional<results::Novelty>& novelty) {
  begin_line(input, output.index);
  out_ << ',' << csv_cell(join_names(predicted(output)));
  if (novelty) write_csv_novelty(*novelty);
  if (has_known_) out_ << ',' << csv_cell(join_names(known(input, output)));
  for (const float logit : output.logits) out_ << ',' << csv_number(probability(logit));
  for (const float logit : output.logits) {
    if (has_logits_) out_ << ',' << csv_number(static_cast<double>(logit));
  }
  out_ << '\n';
}

void LabelWriter::write_json(const inference::PredictionInput& input, const results::Output& output,
                             const std::optional<results::Novelty>& novelty) {
  results::LabelLine line;
  line.novelty = novelty;
  line.file = find_file(input, output.index);
  line.index = output.index;
  for (const std::size_t i : predicted(output)) line.labels.push_back(labels_[i]);
  for (std::size_t i = 0; i < output.logits.size(); ++i) {
    line.probabilities.emplace_back(labels_[i], probability(output.logits[i]));
  }
  // A label that is unknown is in neither list.
  if (input.dataset().spec().is_multi_label()) {
    line.present.emplace();
    line.absent.emplace();
    const data::LabelSet labels = input.dataset().label_set_at(output.index);
    const auto has = [](std::span<const std::int32_t> list, std::size_t label) {
      return std::ranges::binary_search(list, static_cast<std::int32_t>(label));
    };
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (has(labels.unknown, i)) continue;
      (has(labels.present, i) ? line.present : line.absent)->push_back(labels_[i]);
    }
  }
  if (has_logits_) line.logits.emplace(output.logits.begin(), output.logits.end());
  out_ << results::to_line(line);
}

}  // namespace trainer::commands
