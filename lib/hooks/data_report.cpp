#include "hooks/data_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/splits.h"

namespace trainer::hooks {
namespace {

using Split = std::pair<const char*, const data::Dataset*>;

// A validation part of the training samples has the report of these, and is left out.
std::vector<Split> reporting_splits(const data::Datasets& data) {
  std::vector<Split> splits;
  for (const Split& split : {Split{"train", data.train.get()},
                             {"validation", data.validation.get()},
                             {"test", data.test.get()}}) {
    if (split.second == nullptr || split.second->report().empty()) continue;
    const bool told = !splits.empty() && splits[0].second->report() == split.second->report();
    if (!told) splits.push_back(split);
  }
  return splits;
}

std::string classes_without_sample(const data::Datasets& data) {
  if (!data.train) return "";
  const std::vector<std::int64_t> counts = data::class_counts(*data.train, data.num_classes);
  std::string classes;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) classes += (classes.empty() ? "" : ", ") + data.classes[i];
  }
  return classes.empty() ? "" : "the training data has no sample of: " + classes;
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
  void on_finish(const Finish&) override { write(); }

 private:
  void write() {
    std::string text;
    for (const auto& [name, dataset] : reporting_splits(data_)) {
      for (const std::string& line : dataset->report()) text += concat(name, ": ", line, "\n");
    }
    if (text == written_) return;
    write_file_atomic(path_, text);
    written_ = text;
    for (const auto& [name, dataset] : reporting_splits(data_)) tell(name, *dataset);
  }

  void tell(const char* split, const data::Dataset& dataset) {
    const data::Damage damage = dataset.damage();
    if (damage.skipped + damage.replaced == 0) return;
    const bool skipped = damage.skipped > 0;
    warn_(concat(skipped ? damage.skipped : damage.replaced, " of ", damage.files, " files ",
                 skipped ? "skipped" : "replaced", " (", split, "), see ", path_.string()));
    if (json_ == nullptr) return;
    const nlohmann::ordered_json line{{"event", "data_report"},      {"split", split},
                                      {"files", damage.files},       {"skipped", damage.skipped},
                                      {"replaced", damage.replaced}, {"path", path_.string()}};
    write_event(*json_, line);
  }

  const data::Datasets& data_;
  std::function<void(const std::string&)> warn_;
  std::ostream* json_;
  Path path_;
  std::string written_;
};

}  // namespace

std::string left_out(const data::Dataset& dataset, const std::string& split) {
  constexpr std::size_t kNamed = 3;
  const data::Damage damage = dataset.damage();
  if (damage.reasons.empty()) return "";
  std::string text =
      concat(damage.skipped, " of ", damage.files, " files of the ", split,
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
  for (const data::Dataset* split : {data.train.get(), data.validation.get(), data.test.get()}) {
    if (split == nullptr) continue;
    // A validation part of the training samples has the same line.
    std::string line = split->damage().without_class;
    if (lines.back() != line) lines.push_back(std::move(line));
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
