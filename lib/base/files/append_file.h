// An append-only file: the metrics, ledgers and event files of a run.
#pragma once

#include <string>
#include <string_view>

#include "base/files/descriptor.h"
#include "base/files/files.h"

namespace trainer {

// Other processes may read, move or remove the file meanwhile. One thread at a time. All calls but
// is_in_place() throw DataError with the system's reason.
class AppendFile {
 public:
  // Opens the file, or creates it. A link in its place is an error.
  explicit AppendFile(const Path& path);
  // Writes the pending text and ignores errors.
  ~AppendFile();

  const Path& path() const { return path_; }
  // Keeps the text in memory until flush() or sync().
  void append(std::string_view text) { pending_ += text; }
  // Hands the pending text to the system, so that a kill of the process does not lose it.
  void flush();
  // Does what flush() does, and waits until the text is on the disk.
  void sync();
  // Returns whether the path still names this file, and the file has not been emptied.
  bool is_in_place() const;
  // Opens the path anew after it was moved, removed, replaced or emptied. Keeps the pending text,
  // and puts `head` before it if the file is empty.
  void reopen(std::string_view head);

 private:
  void open();

  Path path_;
  Descriptor file_;
  std::string pending_;
  bool has_content_ = false;  // the file had content when this process last looked
};

}  // namespace trainer
