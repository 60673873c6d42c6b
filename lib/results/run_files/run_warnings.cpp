#include "results/run_files/run_warnings.h"

#include "base/error.h"
#include "base/files/append_file.h"
#include "base/text.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::results {

void fields(FieldVisitor& v, RunWarning& warning) {
  v("time", warning.time, "When it was printed, in UTC.");
  v("text", warning.text, "The warning.");
}

void add_run_warning(const Path& run, const RunWarning& warning) {
  try {
    AppendFile file(run / kRunWarningsFile);
    file.append(to_line(warning));
    file.flush();
  } catch (const DataError&) {
    // The terminal has the warning.
  }
}

std::vector<RunWarning> read_run_warnings(const Path& run) {
  constexpr std::ptrdiff_t kMaxWarnings = 100;
  const Path path = run / kRunWarningsFile;
  if (!path_exists(path)) return {};
  std::vector<RunWarning> warnings;
  for (const std::string& line : split_lines(read_text_file(path))) {
    std::optional<RunWarning> warning = find_in_line<RunWarning>(line);
    if (!warning) continue;
    warnings.push_back({printable(warning->time), printable(warning->text)});
  }
  if (std::ssize(warnings) > kMaxWarnings)
    warnings.erase(warnings.begin(), warnings.end() - kMaxWarnings);
  return warnings;
}

}  // namespace trainer::results
