// Files to which runs append rows, one row for each step and split.
// Reasons: lib/decisions/hooks.md#rows-of-long-runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/append_file.h"
#include "base/files/files.h"

namespace trainer::hooks {

// A row of the file, with the step and split that decide whether a resumed run keeps it.
struct Row {
  std::int64_t step = 0;
  std::string split;
  std::string line;
};

// A file of rows that a resumed run continues: metrics.csv, metrics.jsonl, ledger.csv.
class RowFile {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Keeps the rows that a run from `first_step` on will not write again. Removes a last line
  // without a newline, which a killed run leaves. Throws DataError for a line of another kind, as
  // all calls do if the file cannot be written. `warn` is called if the file is moved, removed,
  // replaced or emptied while the run writes it; it may be null.
  template <class Rows>
  RowFile(const Path& path, std::int64_t first_step, const Rows& rows, Warn warn = {})
      : warn_(std::move(warn)),
        header_(rows.header().empty() ? "" : rows.header() + '\n'),
        newest_step_(first_step) {
    const std::string text = std::filesystem::exists(path) ? read_text_file(path) : "";
    std::string kept = header_;
    std::int64_t number = 0;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1) {
      const std::string line = text.substr(at, end - at);
      if (++number == 1 && rows.is_header(line)) continue;
      const std::optional<Row> row = rows(line);
      if (!row) {
        throw DataError(concat(path.string(), ":", number),
                        "is not a row of a run's metrics; move the file away to resume");
      }
      if (row->step > first_step) continue;
      kept += row->line + '\n';
      if (row->step == first_step) present_.insert(row->split);
    }
    if (kept != text) write_file_atomic(path, kept);
    file_.emplace(path);
  }

  // Writes one row per step and split: a run that stops, or resumes after its end, evaluates
  // again. The row is flushed, so that a kill loses no other row than the one in writing.
  void add(const Row& row) {
    write(row);
    flush();
  }
  // Does what add() does, but keeps the row in memory until flush() or sync().
  void write(const Row& row) {
    if (row.step != newest_step_) present_.clear();
    newest_step_ = row.step;
    if (present_.insert(row.split).second) file_->append(row.line + '\n');
  }
  // Returns whether the file has a row of the newest step for this split.
  bool has_newest(const std::string& split) const { return present_.contains(split); }
  void flush() {
    restore();
    file_->flush();
  }
  // Does what flush() does, and waits until all rows are on the disk.
  void sync() {
    restore();
    file_->sync();
  }

 private:
  // Reopens a file that has lost its name, because rows appended to it would be lost silently.
  void restore() {
    if (file_->is_in_place()) return;
    file_->reopen(header_);
    if (!warn_) return;
    warn_(concat(file_->path().string(),
                 ": was moved, removed, replaced or emptied while the run writes it; the rows that "
                 "it had are not written again, those up to step ",
                 newest_step_, " and later ones go to the file that has the name now"));
  }

  Warn warn_;
  std::string header_;  // with its line end
  std::int64_t newest_step_;
  std::set<std::string> present_;  // splits with a row of newest_step_
  std::optional<AppendFile> file_;
};

}  // namespace trainer::hooks
