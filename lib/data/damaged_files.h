// Counts, reports and replaces the files of a split that cannot be read.
// Reasons: lib/decisions/data.md#damage-does-not-change-the-order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainer::data {

class Dataset;

// Counts of the files of a list that could not be read so far or were ignored.
struct Damage {
  std::int64_t skipped = 0, replaced = 0;
  std::int64_t files = 0;                 // files in the list
  std::vector<std::string> reasons = {};  // one per skipped file; begins with its path
  // Lines about classes with similar names, about image files that lie outside the folders of
  // classes, about columns of a csv that are not taken as labels, and about entries that are named
  // like images but are not files.
  std::vector<std::string> left_aside = {};
  std::int64_t warned = 0;   // files that were decoded with a warning
  std::string warning = {};  // the warning of the first such file; begins with its path
};

// The number of damaged files that a data set may have (data.error_budget).
struct ErrorBudget {
  std::string source;  // the folder, glob or csv, for messages
  std::int64_t allowed = 0;
  // Throws DataError if `count` files are more than allowed. `last` is the reason why the last one
  // cannot be read.
  void check(std::int64_t count, const std::string& last) const;
};

// Counts and reports the damaged files of an image data set, and with on_error: replace chooses the
// samples that stand in for them. A data set and the parts that it is divided into share one
// object. Several threads may call all functions except divide() and find_unreadable() at once.
class DamagedFiles {
 public:
  struct Options {
    ErrorBudget budget;
    std::vector<std::string> classes;  // the order is that of the labels
    std::vector<std::int32_t> labels;  // indexed by sample
    std::uint64_t seed = 0;
    bool replaces = false;                // on_error: replace
    std::vector<std::string> notes;       // the first lines of the report
    std::vector<std::string> left_aside;  // see Damage
  };
  // Returns the reason why each of these samples cannot be read, "" if it can.
  using Scan = std::function<std::vector<std::string>(const std::vector<std::int64_t>& indices)>;

  DamagedFiles(Options options, Scan scan);
  // For a data set that leaves out samples of another one; `reasons` has one per sample left out.
  DamagedFiles(std::int64_t files, std::vector<std::string> reasons,
               std::vector<std::string> left_aside);

  Damage damage() const;
  // Returns a line per file that was left out or replaced so far, with the reason.
  std::vector<std::string> report() const;

  // Records a file that was left out; `reason` begins with its path.
  void note_skipped(const std::string& reason, const std::string& class_name);
  // Adds a line to the report.
  void note(const std::string& line);
  // Records a sample whose file was decoded with a warning, which begins with the path.
  void note_warning(std::int64_t index, const std::string& warning);

  // Returns whether another sample stands in for `index` if it cannot be read.
  bool replaces(std::int64_t index) const;
  // Returns whether other samples stand in for those that cannot be read (on_error: replace).
  bool replaces_any() const { return options_.replaces; }
  // Calls `read` with samples of the same class and portion, in an order that depends only on seed
  // and index, until one can be read. `path` is the file of sample `index`, and `reason` why it
  // cannot be read. Throws DataError if no sample can be read or the budget is exceeded.
  void replace(std::int64_t index, const std::string& path, const std::string& reason,
               const std::function<void(std::int64_t)>& read);
  // Moves these samples to the portion kSetAside, as a damaged sample is replaced by one of its own
  // portion. Must be called before the first replace().
  void divide(const std::vector<std::int64_t>& set_aside);
  enum class Portion { kMain, kSetAside };
  // With on_error: replace, decodes every file of a portion and returns, in the order of the
  // samples, the reason why each cannot be read ("" if it can). These samples are not replaced
  // afterwards. Otherwise returns an empty list.
  std::vector<std::string> find_unreadable(Portion portion);

 private:
  using Group = std::pair<Portion, std::int32_t>;  // portion and class

  Group find_group(std::int64_t index) const;
  const std::string& class_name(std::int64_t index) const;
  void note_replaced(std::int64_t index, const std::string& reason);

  Options options_;
  Scan scan_;
  std::int64_t samples_;
  std::vector<Portion> portions_;  // indexed by sample; empty without on_error: replace
  std::map<Group, std::vector<std::int64_t>> groups_;
  std::vector<bool> irreplaceable_;  // indexed by sample; empty if all can be replaced

  mutable std::mutex mutex_;  // guards the members below
  std::vector<std::string> skipped_, report_;
  std::set<std::int64_t> replaced_;
  std::map<std::int64_t, std::string> warnings_;
};

}  // namespace trainer::data
