#include "commands/predict/prediction_writer.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/evaluation/find_class.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Stands in a table for the class of a sample for which the model abstained.
constexpr const char* kAbstains = "(abstains)";

}  // namespace

LineWriter::LineWriter(const std::string& format,
                       const std::vector<inference::PredictionInput>& inputs, std::ostream& out)
    : format_(format), out_(out), has_files_(inputs.size() > 1) {
  for (const inference::PredictionInput& input : inputs) {
    has_files_ = has_files_ || input.one_per_file;
    for (std::int64_t i = 0; i < (input.one_per_file ? input.dataset().size() : 1); ++i) {
      file_width_ = std::max(file_width_, printable(input.name_of(i)).size());
    }
  }
}

void LineWriter::header() {
  if (format_ == "jsonl") return;
  begin_line("file", "index");
  format_ == "csv" ? write_csv_titles() : write_table_titles();
  out_ << '\n';
}

void LineWriter::begin_line(const inference::PredictionInput& input, std::int64_t index) {
  const std::string file = input.name_of(index);
  begin_line(format_ == "csv" ? csv_cell(file) : printable(file), std::to_string(index));
}

void LineWriter::begin_line(const std::string& file, const std::string& index) {
  if (format_ == "csv") {
    out_ << (has_files_ ? file + ',' : "") << index;
    return;
  }
  if (has_files_) out_ << std::left << std::setw(static_cast<int>(file_width_) + 2) << file;
  out_ << std::right << std::setw(7) << index;
}

std::optional<std::string> LineWriter::find_file(const inference::PredictionInput& input,
                                                 std::int64_t index) const {
  return has_files_ ? std::optional(input.name_of(index)) : std::nullopt;
}

void LineWriter::write_csv_novelty(const results::Novelty& novelty) {
  out_ << (novelty.is_novel ? ",true," : ",false,") << csv_number(novelty.distance);
}

PredictionWriter::PredictionWriter(const std::string& format, std::vector<std::string> classes,
                                   const std::vector<inference::PredictionInput>& inputs,
                                   std::optional<std::int64_t> top, std::ostream& out,
                                   std::int64_t logits)
    : LineWriter(format, inputs, out), classes_(std::move(classes)), logits_(logits) {
  if (top) top_ = std::min(*top, std::ssize(classes_));
  for (std::string& name : classes_) name = printable(name);
  for (const std::string& name : classes_) name_width_ = std::max(name_width_, name.size());
  for (const inference::PredictionInput& input : inputs) {
    labelled_ = labelled_ || input.images.labelled;
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

void PredictionWriter::show_novelty() {
  shows_novelty_ = true;
  name_width_ = std::max(name_width_, std::string_view(kNoneOfTheClasses).size());
}

void PredictionWriter::write_csv_titles() {
  out_ << ",class,probability" << (abstains_below_ ? ",abstained" : "")
       << (shows_novelty_ ? kNoveltyTitles : "") << (labelled_ ? ",label" : "");
  for (std::int64_t i = 2; i <= top_; ++i) out_ << ",class_" << i << ",probability_" << i;
  if (top_ == 0) {
    for (const std::string& name : classes_) out_ << ',' << csv_cell("p_" + name);
  }
  for (std::int64_t i = 0; i < logits_; ++i) {
    // A single one is that of the second class.
    const std::int64_t of = logits_ == 1 && classes_.size() == 2 ? 1 : i;
    out_ << ',' << csv_cell("logit_" + results::class_name(classes_, of));
  }
}

void PredictionWriter::write_table_titles() {
  out_ << "  " << std::left << std::setw(static_cast<int>(name_width_) + 2) << "class"
       << "probability" << (shows_novelty_ ? "  distance" : "") << (labelled_ ? "  label" : "")
       << (logits_ > 0 ? "  logits" : "");
}

void PredictionWriter::write(const inference::PredictionInput& input,
                             const results::Prediction& prediction, const std::string& heatmap) {
  if (format_ == "csv") return write_csv(input, prediction);
  if (format_ == "jsonl") return write_json(input, prediction, heatmap);
  write_table(input, prediction);
}

std::string PredictionWriter::name_class(const results::Prediction& prediction) const {
  if (prediction.is_novel()) return kNoneOfTheClasses;
  if (prediction.abstained) return kAbstains;
  return results::class_name(classes_, prediction.predicted);
}

void PredictionWriter::write_table(const inference::PredictionInput& input,
                                   const results::Prediction& prediction) {
  const double p = prediction.probabilities[prediction.predicted];
  begin_line(input, prediction.index);
  out_ << "  " << std::left << std::setw(static_cast<int>(name_width_) + 2)
       << name_class(prediction) << std::right << std::setw(11) << fixed(p, 4);
  if (prediction.novelty)
    out_ << "  " << std::setw(8) << significant(prediction.novelty->distance, 4);
  if (prediction.label) {
    out_ << "  " << results::class_name(classes_, *prediction.label);
    const bool is_wrong = *prediction.label != prediction.predicted;
    if (is_wrong && prediction.has_class()) out_ << "  wrong";
  }
  for (const std::size_t i : runners_up(prediction)) {
    out_ << "  " << results::class_name(classes_, i) << ' '
         << fixed(prediction.probabilities[i], 4);
  }
  if (logits_ > 0) {
    for (const float x : prediction.scaled_logits) out_ << "  " << fixed(static_cast<double>(x), 4);
  }
  if (prediction.is_novel()) {
    out_ << "  nearest " << printable(prediction.novelty->nearest.front().name);
  }
  out_ << '\n';
}

void PredictionWriter::write_csv(const inference::PredictionInput& input,
                                 const results::Prediction& prediction) {
  const double p = prediction.probabilities[prediction.predicted];
  begin_line(input, prediction.index);
  out_ << ','
       << (prediction.abstained ? ""
                                : csv_cell(results::class_name(classes_, prediction.predicted)))
       << ',' << csv_number(p);
  if (abstains_below_) out_ << (prediction.abstained ? ",true" : ",false");
  if (prediction.novelty) write_csv_novelty(*prediction.novelty);
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
  const auto& probabilities = prediction.probabilities;
  const std::size_t predicted = prediction.predicted;
  results::PredictionLine line;
  line.file = find_file(input, prediction.index);
  line.index = prediction.index;
  if (!prediction.abstained) line.predicted = results::class_name(classes_, predicted);
  line.probability = probabilities[predicted];
  if (abstains_below_) {
    line.abstained = prediction.abstained;
    line.abstains_below = *abstains_below_ > 1 ? HUGE_VAL : *abstains_below_;
  }
  line.novelty = prediction.novelty;
  if (prediction.label) line.label = results::class_name(classes_, *prediction.label);
  if (top_ > 0) {
    line.top.push_back({results::class_name(classes_, predicted), probabilities[predicted]});
    for (const std::size_t i : runners_up(prediction)) {
      line.top.push_back({results::class_name(classes_, i), probabilities[i]});
    }
  } else {
    line.probabilities.emplace();
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
      line.probabilities->emplace_back(results::class_name(classes_, i), probabilities[i]);
    }
  }
  const std::vector<float>& logits = prediction.scaled_logits;
  if (logits_ > 0) line.logits.emplace(logits.begin(), logits.end());
  line.heatmap = heatmap;
  out_ << results::to_line(line);
}

}  // namespace trainer::commands
