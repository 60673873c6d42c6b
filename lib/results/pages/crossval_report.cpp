#include <nlohmann/json.hpp>

#include "base/formats/json_number.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "results/crossval/crossval_result.h"
#include "results/page/page.h"
#include "results/pages/html.h"
#include "results/pages/probability_parts.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

using FoldsJson = nlohmann::ordered_json;

StoredFile open_crossval(const Path& folder) {
  return {folder / kCrossvalFile,
          "give the same `trainer crossval` command again with --collect, which writes it anew"};
}

// Returns "-" for null, which stands for a number that is not finite.
std::string number_text(const FoldsJson& number, const std::string& key) {
  if (!number.is_null() && !number.is_number()) {
    throw std::range_error(concat("the value of ", key, " is not a number"));
  }
  return number.is_null() ? "-" : fixed(number.get<double>(), 4);
}

std::string member_text(const FoldsJson& object, const char* key) {
  return number_text(member(object, key), key);
}

// Returns a count of the confusion matrix.
std::int64_t read_confusion(const FoldsJson& json, std::size_t actual, std::size_t predicted) {
  const FoldsJson& matrix = member(json, "confusion");
  const bool has_row = matrix.is_array() && actual < matrix.size() && matrix[actual].is_array();
  if (has_row && predicted < matrix[actual].size()) {
    if (const auto count = whole_number(matrix[actual][predicted])) return *count;
  }
  throw std::range_error("confusion is not a matrix with a count for each pair of classes");
}

std::string interval_text(const FoldsJson& metric, const char* low, const char* high) {
  if (!metric.contains(low) || member(metric, low).is_null()) return "-";
  return member_text(metric, low) + " to " + member_text(metric, high);
}

Table metrics_table(const FoldsJson& json) {
  Table table({"metric", "mean over folds", "95 % interval (Student)", "all samples together",
               "95 % interval"},
              NumbersFrom{1}, "Metrics of the predictions that each run made for its fold");
  for (const auto& [name, metric] : member(json, "metrics").items()) {
    table.add({name, member_text(metric, "mean"), interval_text(metric, "low", "high"),
               member_text(metric, "all"), interval_text(metric, "all_low", "all_high")});
  }
  return table;
}

Table folds_table(const FoldsJson& json) {
  std::vector<std::string> header{"fold", "samples", "step"};
  std::vector<std::vector<std::string>> rows;
  for (const FoldsJson& fold : member(json, "folds")) {
    rows.push_back({std::to_string(read_stored_count(fold, "fold")),
                    grouped(read_stored_count(fold, "count")),
                    std::to_string(read_stored_count(fold, "step"))});
  }
  const auto add_column = [&](const std::string& name, const FoldsJson& values) {
    header.push_back(name);
    if (!values.is_array() || values.size() != rows.size()) {
      throw std::range_error(concat(name, " does not have a value for each fold"));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(number_text(values[i], name));
  };
  for (const auto& [name, metric] : member(json, "metrics").items()) {
    add_column(name, member(metric, "folds"));
  }
  if (json.contains("calibration")) {
    add_column("temperature of the other folds",
               member(member(json, "calibration"), "fold_temperatures"));
  }
  Table table(std::move(header), NumbersFrom{1}, "The run of each fold, measured on the fold");
  for (std::vector<std::string>& row : rows) table.add(std::move(row));
  return table;
}

// Adds the matrix of at most as many classes as fit a page.
void add_confusion(Document& page, const FoldsJson& json) {
  constexpr std::size_t kMaxClasses = 20;
  if (!json.contains("confusion") || member(json, "classes").size() > kMaxClasses) return;
  ConfusionMatrix matrix{read_member<std::vector<std::string>>(json, "classes"), {}};
  for (std::size_t r = 0; r < matrix.classes.size(); ++r) {
    for (std::size_t c = 0; c < matrix.classes.size(); ++c) {
      matrix.counts.push_back(read_confusion(json, r, c));
    }
  }
  page.add(std::move(matrix));
}

// Returns "68 % right (589 of 863 samples), 5 folds, ...".
std::string describe_folds(const FoldsJson& json) {
  const std::int64_t count = read_stored_count(json, "count");
  std::string result = grouped(count) + " samples";
  if (json.contains("confusion") && count > 0) {
    std::int64_t right = 0;
    for (std::size_t c = 0; c < member(json, "classes").size(); ++c) {
      right += read_confusion(json, c, c);
    }
    result = concat(right_share(right, count), " right (", grouped(right), " of ", result, ")");
  }
  return concat(result, ", ", member(json, "folds").size(),
                " folds, each sample predicted by the run that has not trained on it, with the ",
                read_member<std::string>(json, "checkpoint"), " checkpoint");
}

Table labels_table(const FoldsJson& json) {
  Table table({"label", "images with it", "without it", "AUC: mean", "95 % interval (Student)",
               "all samples together", "95 % interval (DeLong)", "average precision: mean",
               "95 % interval (Student)", "all samples together"},
              NumbersFrom{1}, "Metrics of every label");
  for (const FoldsJson& label : member(json, "labels")) {
    const FoldsJson &auc = member(label, "auc"), &precision = member(label, "average_precision");
    table.add({read_member<std::string>(label, "label"),
               grouped(read_stored_count(label, "positives")),
               grouped(read_stored_count(label, "negatives")), member_text(auc, "mean"),
               interval_text(auc, "low", "high"), member_text(auc, "all"),
               interval_text(auc, "all_low", "all_high"), member_text(precision, "mean"),
               interval_text(precision, "low", "high"), member_text(precision, "all")});
  }
  return table;
}

Document metrics_section(const FoldsJson& json) {
  Document section;
  section.add(Paragraph{describe_folds(json), Paragraph::Kind::kHeadline});
  section.add(Heading{"Metrics"});
  section.add(metrics_table(json));
  if (json.contains("labels")) section.add(labels_table(json));
  section.add(Heading{"Folds"});
  section.add(folds_table(json));
  add_confusion(section, json);
  return section;
}

std::string describe_operating_point(const FoldsJson& point) {
  return concat("<p>", describe_threshold_part(point, std::nullopt),
                ", found on all samples. Each fold is measured with the threshold that was found "
                "on the other folds.</p>\n") +
         contradiction_part(point);
}

std::string describe_costs(const FoldsJson& point) {
  return concat("<p>Operating point ", escape_markup(read_member<std::string>(point, "criterion")),
                ": the class of the least expected cost, by the probabilities at the temperature "
                "that was fitted to the other folds.</p>\n");
}

std::vector<Chart> fold_charts(const FoldsJson& json) {
  std::vector<Chart> charts;
  if (json.contains("calibration")) charts = calibration_charts(member(json, "calibration"));
  if (!json.contains("curves")) return charts;
  for (Chart& chart : curve_charts(member(json, "curves"))) charts.push_back(std::move(chart));
  return charts;
}

std::string fold_probabilities(const FoldsJson& json) {
  const std::vector<Chart> charts = fold_charts(json);
  if (charts.empty()) return "";
  std::string text = heading("Probabilities") + chart_grid(charts);
  if (json.contains("calibration")) {
    const FoldsJson& calibration = member(json, "calibration");
    text += concat("<p>Temperature ", fixed(read_member<double>(calibration, "temperature"), 4),
                   ", fitted to all samples. Each fold is measured with the temperature that was "
                   "fitted to the other folds.</p>\n") +
            calibration_table(calibration);
  }
  if (json.contains("curves")) text += areas_table(member(json, "curves"));
  if (!json.contains("operating_point")) return text;
  const FoldsJson& point = member(json, "operating_point");
  if (point.contains("costs")) return text + describe_costs(point) + costs_tables(point);
  return text + describe_operating_point(point) +
         operating_table({{"found on all samples", &member(point, "found")},
                          {"each fold by the threshold of the others", &member(point, "counts")}});
}

}  // namespace

std::string crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                            const Path& folder) {
  const StoredFile file = open_crossval(folder);
  Document page{"Cross-validation " + summary.name};
  page.append(file.read(metrics_section));
  page.add(Markup{file.read(fold_probabilities)});
  for (const Mistakes& mistakes : folds) page.append(mistakes_section(mistakes));
  if (folds.empty()) {
    page.add(Paragraph{concat("`trainer report ", shell_word(folder.string()),
                              "` adds the mistakes of each fold, with heatmaps.")});
  }
  page.append(environment_section(summary));
  return render_html(page);
}

void write_crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                           const Path& folder, const Path& html) {
  write_charts(open_crossval(folder).read(fold_charts), folder);
  write_file_atomic(html, crossval_report(summary, folds, folder));
}

}  // namespace trainer::results
