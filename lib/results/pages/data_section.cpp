#include <algorithm>

#include "base/files/files.h"
#include "base/text.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

constexpr std::size_t kClassesShown = 60;

Table sizes_table(const RunFiles& run) {
  Table table({"split", "samples", "smallest class", "largest class", "classes without a sample"},
              NumbersFrom{1}, "Samples of every split");
  for (const auto& [name, split] : run.splits) {
    std::vector<std::string> row{name, grouped(split.samples)};
    if (split.classes.empty()) {
      row.insert(row.end(), 3, "-");
    } else {
      const auto [least, most] = std::ranges::minmax_element(split.classes);
      row.push_back(grouped(*least));
      row.push_back(grouped(*most));
      row.push_back(grouped(std::ranges::count(split.classes, std::int64_t{0})));
    }
    table.add(std::move(row));
  }
  return table;
}

// Returns a column per split whose classes are known; nothing for too many classes.
std::optional<Table> class_counts_table(const RunFiles& run) {
  std::vector<std::string> header{"class"};
  std::vector<const SplitSize*> known;
  for (const auto& [name, split] : run.splits) {
    if (split.classes.size() != run.classes.size()) continue;
    known.push_back(&split);
    header.push_back(name);
  }
  if (known.empty() || run.classes.empty() || run.classes.size() > kClassesShown) return {};
  Table table(std::move(header), NumbersFrom{1}, "Samples of every class");
  for (std::size_t i = 0; i < run.classes.size(); ++i) {
    std::vector<std::string> row{run.classes[i]};
    for (const SplitSize* split : known) row.push_back(grouped(split->classes[i]));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

Document data_section(const RunFiles& run) {
  const Path report = run.folder / "data_report.txt";
  const bool has_report = std::filesystem::exists(report);
  if (run.splits.empty() && run.data_notices.empty() && !has_report) return {};
  Document section;
  section.add(Heading{"Data"});
  for (const Notice& notice : run.data_notices) section.add(notice);
  if (!run.splits.empty()) section.add(sizes_table(run));
  if (const auto counts = class_counts_table(run)) {
    section.add(Folded{counts->caption(), {{*counts}}});
  }
  if (!has_report) {
    section.add(Paragraph{"All files were read without a complaint."});
    return section;
  }
  section.add(Paragraph{"Files that were skipped, replaced or decoded with warnings:"});
  section.add(Preformatted{"Data report", split_lines(read_text_file(report))});
  return section;
}

}  // namespace trainer::results
