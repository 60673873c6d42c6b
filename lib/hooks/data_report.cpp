#include "hooks/data_report.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/samples/splits.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

using NamedSplit = std::pair<Split, const data::DamagedFiles*>;

// Lists the image files of each split. Files that two splits share are listed under the first.
std::vector<NamedSplit> splits_of_files(const data::Datasets& data) {
  std::vector<NamedSplit> splits;
  for (const Split split : kSplits) {
    const data::DamagedFiles* const files = data.files(split).get();
    const bool shared = !splits.empty() && splits[0].second == files;
    if (files != nullptr && !shared) splits.emplace_back(split, files);
  }
  return splits;
}

// Returns "" if no file was decoded with a warning.
std::string decoded_with_warnings(Split split, const data::Damage& damage) {
  if (damage.warned == 0) return "";
  return concat(damage.warned, " of ", damage.files, " files of the ", to_string(split),
                " split were decoded with warnings, the first: ", damage.warning);
}

std::string classes_without_sample(const data::Datasets& data) {
  if (!data.train) return "";
  const std::vector<std::int64_t> counts = data::class_counts(*data.train, data.num_classes);
  std::vector<std::string> classes;
  const std::vector<data::LabelCounts> labels = data::count_labels(*data.train);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].positives == 0) classes.push_back(data.classes[i]);
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) classes.push_back(data.classes[i]);
  }
  if (classes.empty()) return "";
  return "the training data has no sample of: " + data::list_classes(classes);
}

class DataReportHook final : public Hook {
 public:
  DataReportHook(const data::Datasets& data, std::function<void(const std::string&)> warn,
                 std::ostream* json)
      : data_(data), warn_(std::move(warn)), json_(json) {}

  std::string name() const override { return "data_report"; }

  void on_start(const RunInfo& info) override {
    path_ = info.dir / "data_report.txt";
    for (const std::string& line : data_warnings(data_)) warn_(line);
    write();
  }
  // Warnings of the decoder come while files are read.
  void on_finish(const Finish&) override {
    write();
    for (const auto& [split, files] : splits_of_files(data_)) {
      const std::string line = decoded_with_warnings(split, files->damage());
      if (!line.empty()) warn_(line);
    }
  }

 private:
  void write() {
    std::string text;
    for (const auto& [split, files] : splits_of_files(data_)) {
      for (const std::string& line : files->report()) {
        text += concat(to_string(split), ": ", printable(line), "\n");
      }
      const std::string warned = decoded_with_warnings(split, files->damage());
      if (!warned.empty()) text += printable(warned) + "\n";
    }
    if (text == written_) return;
    write_file_atomic(path_, text);
    written_ = text;
    for (const auto& [split, files] : splits_of_files(data_))
      report_damage(to_string(split), files->damage());
  }

  void report_damage(const std::string& split, const data::Damage& damage) {
    if (damage.skipped + damage.replaced == 0) return;
    const bool skipped = damage.skipped > 0;
    warn_(concat(skipped ? damage.skipped : damage.replaced, " of ", damage.files, " files ",
                 skipped ? "skipped" : "replaced", " (", split, "), see ", path_.string()));
    if (json_ == nullptr) return;
    results::print_json(results::DataReportEvent{split, damage, path_.string()}, *json_);
  }

  const data::Datasets& data_;
  std::function<void(const std::string&)> warn_;
  std::ostream* json_;
  Path path_;
  std::string written_;
};

}  // namespace

std::string left_out(const data::DamagedFiles* files, Split split) {
  constexpr std::size_t kNamed = 3;
  const data::Damage damage = files != nullptr ? files->damage() : data::Damage{};
  if (damage.reasons.empty()) return "";
  std::string text =
      concat(damage.skipped, " of ", damage.files, " files of the ", to_string(split),
             " split cannot be read and ", damage.skipped == 1 ? "is" : "are", " left out: ");
  for (std::size_t i = 0; i < std::min(kNamed, damage.reasons.size()); ++i) {
    text += concat(i > 0 ? "; " : "", damage.reasons[i]);
  }
  if (damage.reasons.size() > kNamed) {
    text += concat("; and ", damage.reasons.size() - kNamed, " more");
  }
  return text;
}

std::vector<std::string> data_warnings(const data::Datasets& data) {
  std::vector<std::string> lines{classes_without_sample(data)};
  for (const auto& [name, files] : splits_of_files(data)) {
    for (std::string& line : files->damage().left_aside) {
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
  }
  std::erase(lines, "");
  return lines;
}

std::unique_ptr<Hook> make_data_report_hook(const data::Datasets& data,
                                            std::function<void(const std::string&)> warn,
                                            std::ostream* json) {
  return std::make_unique<DataReportHook>(data, std::move(warn), json);
}

}  // namespace trainer::hooks
