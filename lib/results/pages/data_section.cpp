#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/page/page.h"
#include "results/page/picture.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

constexpr std::size_t kClassesShown = 60;

std::string sizes(const RunFiles& run) {
  Cells cells{{"split", "samples", "smallest class", "largest class", "classes without a sample"}};
  for (const RunFiles::SplitSize& split : run.splits) {
    cells.push_back({to_string(split.split), grouped(split.samples)});
    if (split.classes.empty()) {
      cells.back().insert(cells.back().end(), 3, "-");
      continue;
    }
    const auto [least, most] = std::ranges::minmax_element(split.classes);
    cells.back().push_back(grouped(*least));
    cells.back().push_back(grouped(*most));
    cells.back().push_back(grouped(std::ranges::count(split.classes, std::int64_t{0})));
  }
  return table("Samples of every split", cells, 1);
}

std::string counts(const RunFiles& run) {
  Cells cells{{"class"}};
  std::vector<const RunFiles::SplitSize*> known;
  for (const RunFiles::SplitSize& split : run.splits) {
    if (split.classes.size() != run.classes.size()) continue;
    known.push_back(&split);
    cells.front().push_back(to_string(split.split));
  }
  if (known.empty() || run.classes.empty() || run.classes.size() > kClassesShown) return "";
  for (std::size_t i = 0; i < run.classes.size(); ++i) {
    cells.push_back({run.classes[i]});
    for (const RunFiles::SplitSize* split : known)
      cells.back().push_back(grouped(split->classes[i]));
  }
  return folded("Samples of every class", table("Samples of every class", cells, 1));
}

// data_report.txt of the run: files that were skipped, replaced or decoded with warnings.
std::string files(const RunFiles& run) {
  const Path report = run.folder / "data_report.txt";
  if (!std::filesystem::exists(report)) return "<p>All files were read without a complaint.</p>\n";
  std::vector<std::string> lines;
  for (const std::string& line : split_text(read_text_file(report), '\n')) {
    lines.push_back(escape_markup(line));
  }
  return "<p>Files that were skipped, replaced or decoded with warnings:</p>\n<pre tabindex=\"0\" "
         "aria-label=\"Data report\">" +
         join(lines, "\n") + "</pre>\n";
}

std::string notices(const RunFiles& run) {
  if (run.data_notices.empty()) return "";
  std::string text = "<ul class=\"notices\">\n";
  for (const Notice& notice : run.data_notices) {
    const bool is_note = notice.kind == Notice::Kind::kNote;
    text += concat("<li>", bold(is_note ? "Note" : "Warning"), ": ", escape_markup(notice.text),
                   "</li>\n");
  }
  return text + "</ul>\n";
}

}  // namespace

std::string data_section(const RunFiles& run) {
  const bool has_report = std::filesystem::exists(run.folder / "data_report.txt");
  if (run.splits.empty() && run.data_notices.empty() && !has_report) return "";
  std::string text = heading("Data") + notices(run);
  if (!run.splits.empty()) text += sizes(run) + counts(run);
  return text + files(run);
}

}  // namespace trainer::results
