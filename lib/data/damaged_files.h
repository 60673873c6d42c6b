// Counts, reports and replaces the files of a split that cannot be read.
// Reasons: lib/decisions/data.md#damage-does-not-change-the-order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainer::data {

class Dataset;

// Counts of the files of a list that could not be read so far, or that were ignored.
struct Damage {
  std::int64_t skipped = 0, replaced = 0, files = 0;  // files: in the list
  std::vector<std::string> reasons = {};              // one a skipped file; begins with its path
  // Lines on classes with similar names, on image files that lie in no folder of a class, and on
  // entries that are named like images but are not files.
  std::vector<std::string> left_aside = {};
  std::int64_t warned = 0;   // files that were decoded with a warning
  std::string warning = {};  // of the first of these; begins with the file
};

// How many damaged files a data set may have (data.error_budget).
struct ErrorBudget {
  std::string source;  // the folder, glob or csv, for messages
  std::int64_t allowed = 0;
  // Throws DataError with `last`, why the last one cannot be read, when `count` is more.
  void check(std::int64_t count, const std::string& last) const;
};

// The damaged files of an image data set: counts and reports them, and with on_error: replace
// chooses the samples that stand in for them. The data set and the parts that it is divided into
// share one. All calls but divide() and find_unreadable() may come from several threads at once.
class DamagedFiles {
 public:
  struct Options {
    ErrorBudget budget;
    std::vector<std::string> classes;  // in label order
    std::vector<std::int32_t> labels;  // of the samples
    std::uint64_t seed = 0;
    bool replaces = false;                // on_error: replace
    std::vector<std::string> notes;       // begin the report
    std::vector<std::string> left_aside;  // see Damage
  };
  // Why each of these samples cannot be read, "" when it can.
  using Scan = std::function<std::vector<std::string>(const std::vector<std::int64_t>& indices)>;

  DamagedFiles(Options options, Scan scan);
  // For a data set that leaves out samples of another one, with a reason for each.
  DamagedFiles(std::int64_t files, std::vector<std::string> reasons,
               std::vector<std::string> left_aside);

  Damage damage() const;
  // Files that were left out or replaced so far, and why, one line each.
  std::vector<std::string> report() const;

  // A file that is no sample: `reason` begins with the file. Then the line on its class, if any.
  void note_skipped(const std::string& reason, const std::string& class_name);
  void note(const std::string& line);
  // A sample whose file was decoded with a warning, which begins with the file.
  void note_warning(std::int64_t index, const std::string& warning);

  // Whether another sample stands in for `index` when it cannot be read.
  bool replaces(std::int64_t index) const;
  // Calls `read` with samples of the same class and portion until one can be read. Their order
  // depends only on seed and index. Throws DataError when none can be read, or the budget is spent.
  // `reason`: why sample `index` cannot be read; `path`: its file.
  void replace(std::int64_t index, const std::string& path, const std::string& reason,
               const std::function<void(std::int64_t)>& read);
  // Moves these samples to the portion kSetAside: a damaged sample is replaced by one of its own
  // portion. Call it before the first replace().
  void divide(const std::vector<std::int64_t>& set_aside);
  enum class Portion { kMain, kSetAside };
  // With on_error: replace, decodes every file of a portion once and returns, in rising order of
  // the samples, why each cannot be read ("" when it can); from then on these samples are never
  // replaced. Otherwise returns nothing.
  std::vector<std::string> find_unreadable(Portion portion);

 private:
  using Group = std::pair<Portion, std::int32_t>;  // and the class

  Group group_of(std::int64_t index) const;
  const std::string& class_of(std::int64_t index) const;
  void note_replaced(std::int64_t index, const std::string& reason);

  Options options_;
  Scan scan_;
  std::int64_t samples_;
  std::vector<Portion> portions_;  // of the samples; with on_error: replace
  std::map<Group, std::vector<std::int64_t>> groups_;
  std::vector<bool> irreplaceable_;  // of the samples; empty when none is

  mutable std::mutex mutex_;  // guards all below
  std::vector<std::string> skipped_, report_;
  std::set<std::int64_t> replaced_;
  std::map<std::int64_t, std::string> warnings_;
};

}  // namespace trainer::data
