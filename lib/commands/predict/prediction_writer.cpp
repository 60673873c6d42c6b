#include "commands/predict/prediction_writer.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/formats/csv.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/evaluation/find_class.h"

namespace trainer::commands {
namespace {

// Stands in a table for the class of a sample for which the model abstained.
constexpr const char* kAbstains = "(abstains)";

}  // namespace

PredictionWriter::PredictionWriter(const std::string& format, std::vector<std::string> classes,
                                   const std::vector<inference::PredictionInput>& inputs,
                                   std::optional<std::int64_t> top, std::ostream& out,
                                   std::int64_t logits)
    : format_(format),
      classes_(std::move(classes)),
      logits_(logits),
      files_(inputs.size() > 1),
      out_(out) {
  if (top) top_ = std::min(*top, std::ssize(classes_));
  for (std::string& name : classes_) name = printable(name);
  for (const std::string& name : classes_) name_width_ = std::max(name_width_, name.size());
  for (const inference::PredictionInput& input : inputs) {
    labelled_ = labelled_ || input.images.labelled;
    files_ = files_ || input.one_per_file;
    for (std::int64_t i = 0; i < (input.one_per_file ? input.dataset().size() : 1); ++i) {
      file_width_ = std::max(file_width_, printable(input.name_of(i)).size());
    }
  }
}

std::vector<std::size_t> PredictionWriter::runners_up(const results::Prediction& prediction) const {
  const std::vector<double>& p = prediction.probabilities;
  const std::size_t first = prediction.predicted;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (i != first) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  order.resize(
      std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(top_, 1)) - 1));
  return order;
}

void PredictionWriter::show_abstentions(double confidence) {
  abstains_below_ = confidence;
  name_width_ = std::max(name_width_, std::string_view(kAbstains).size());
}

void PredictionWriter::header() {
  const int width = static_cast<int>(name_width_) + 2;
  if (format_ == "csv") {
    out_ << (files_ ? "file," : "") << "index,class,probability"
         << (abstains_below_ ? ",abstained" : "") << (labelled_ ? ",label" : "");
    for (std::int64_t i = 2; i <= top_; ++i) out_ << ",class_" << i << ",probability_" << i;
    if (top_ == 0) {
      for (const std::string& name : classes_) out_ << ',' << csv_cell("p_" + name);
    }
    for (std::int64_t i = 0; i < logits_; ++i) {
      // A single one is that of the second class.
      const std::int64_t of = logits_ == 1 && classes_.size() == 2 ? 1 : i;
      out_ << ',' << csv_cell("logit_" + results::class_name(classes_, of));
    }
    out_ << '\n';
  } else if (format_ == "table") {
    if (files_) out_ << std::left << std::setw(static_cast<int>(file_width_) + 2) << "file";
    out_ << std::right << std::setw(7) << "index"
         << "  " << std::left << std::setw(width) << "class"
         << (labelled_ ? "probability  label" : "probability") << (logits_ > 0 ? "  logits" : "")
         << '\n';
  }
}

void PredictionWriter::write(const inference::PredictionInput& input,
                             const results::Prediction& prediction, const std::string& heatmap) {
  if (format_ == "csv") return write_csv(input, prediction);
  if (format_ == "jsonl") return write_json(input, prediction, heatmap);
  write_table(input, prediction);
}

void PredictionWriter::write_table(const inference::PredictionInput& input,
                                   const results::Prediction& prediction) {
  const double p = prediction.probabilities[prediction.predicted];
  if (files_)
    out_ << std::left << std::setw(static_cast<int>(file_width_) + 2)
         << printable(input.name_of(prediction.index));
  out_ << std::right << std::setw(7) << prediction.index << "  " << std::left
       << std::setw(static_cast<int>(name_width_) + 2)
       << (prediction.abstained ? kAbstains : results::class_name(classes_, prediction.predicted))
       << std::right << std::setw(11) << fixed(p, 4);
  if (prediction.label) {
    out_ << "  " << results::class_name(classes_, *prediction.label);
    const bool is_wrong = *prediction.label != prediction.predicted;
    if (is_wrong && !prediction.abstained) out_ << "  wrong";
  }
  for (const std::size_t i : runners_up(prediction)) {
    out_ << "  " << results::class_name(classes_, i) << ' '
         << fixed(prediction.probabilities[i], 4);
  }
  if (logits_ > 0) {
    for (const float x : prediction.scaled_logits) out_ << "  " << fixed(static_cast<double>(x), 4);
  }
  out_ << '\n';
}

void PredictionWriter::write_csv(const inference::PredictionInput& input,
                                 const results::Prediction& prediction) {
  const double p = prediction.probabilities[prediction.predicted];
  if (files_) out_ << csv_cell(input.name_of(prediction.index)) << ',';
  out_ << prediction.index << ','
       << (prediction.abstained ? ""
                                : csv_cell(results::class_name(classes_, prediction.predicted)))
       << ',' << csv_number(p);
  if (abstains_below_) out_ << (prediction.abstained ? ",true" : ",false");
  if (labelled_)
    out_ << ','
         << (prediction.label ? csv_cell(results::class_name(classes_, *prediction.label)) : "");
  for (const std::size_t i : runners_up(prediction)) {
    out_ << ',' << csv_cell(results::class_name(classes_, i)) << ','
         << csv_number(prediction.probabilities[i]);
  }
  if (top_ == 0) {
    for (const double x : prediction.probabilities) out_ << ',' << csv_number(x);
  }
  if (logits_ > 0) {
    for (const float x : prediction.scaled_logits)
      out_ << ',' << csv_number(static_cast<double>(x));
  }
  out_ << '\n';
}

void PredictionWriter::write_json(const inference::PredictionInput& input,
                                  const results::Prediction& prediction,
                                  const std::string& heatmap) {
  nlohmann::ordered_json json;
  if (files_) json["file"] = input.name_of(prediction.index);
  json["index"] = prediction.index;
  json["class"] = prediction.abstained
                      ? nlohmann::ordered_json()
                      : nlohmann::ordered_json(results::class_name(classes_, prediction.predicted));
  json["probability"] = prediction.probabilities[prediction.predicted];
  if (abstains_below_) {
    json["abstained"] = prediction.abstained;
    json["abstains_below"] =
        *abstains_below_ > 1 ? nlohmann::ordered_json() : nlohmann::ordered_json(*abstains_below_);
  }
  if (prediction.label) json["label"] = results::class_name(classes_, *prediction.label);
  if (top_ > 0) {
    std::vector<std::size_t> order = runners_up(prediction);
    order.insert(order.begin(), prediction.predicted);
    for (const std::size_t i : order) {
      json["top"].push_back({{"class", results::class_name(classes_, i)},
                             {"probability", prediction.probabilities[i]}});
    }
  } else {
    auto& all = json["probabilities"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < prediction.probabilities.size(); ++i) {
      append_key(all, results::class_name(classes_, i), prediction.probabilities[i]);
    }
  }
  if (logits_ > 0) json["logits"] = prediction.scaled_logits;
  if (!heatmap.empty()) json["heatmap"] = heatmap;
  out_ << to_json_line(json) << '\n';
}

}  // namespace trainer::commands
