// Files to which runs append rows, one row for each step and split.
// Reasons: lib/decisions/hooks.md#rows-of-long-runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
        throw DataError(
            concat(path.string(), ":", number),
            "is not a row of a run's metrics with a step; move the file away to resume");
      }
      if (row->step > first_step) continue;
      kept += row->line + '\n';
      newest_[row->split] = row->step;
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
    newest_step_ = row.step;
    const auto [newest, is_first] = newest_.try_emplace(row.split, row.step);
    if (is_first || newest->second != row.step) file_->append(row.line + '\n');
    newest->second = row.step;
  }
  // Returns the step of the newest row of this split; -1 if the file has none.
  std::int64_t newest_step(const std::string& split) const {
    const auto newest = newest_.find(split);
    return newest == newest_.end() ? -1 : newest->second;
  }
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
  std::string header_;  // includes its line end
  std::int64_t newest_step_;
  std::map<std::string, std::int64_t> newest_;  // the step of the newest row of each split
  std::optional<AppendFile> file_;
};

}  // namespace trainer::hooks
