#include "results/pages/html.h"

namespace trainer::results {

void write_report(const Document& report, const Path& html, const std::optional<Path>& plots) {
  if (plots) {
    std::filesystem::create_directories(*plots);
    write_charts(list_charts(report), *plots);
  }
  write_file_atomic(html, render_html(report));
}

}  // namespace trainer::results
