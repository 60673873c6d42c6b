#include "results/pages/confusion_table.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/formats/table.h"
#include "results/page/page.h"

namespace trainer::results {
namespace {

// Returns a cell, blue for right predictions and red for wrong ones.
std::string matrix_cell(std::int64_t count, std::int64_t of, bool is_right) {
  const double share = of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0;
  const char* colour = is_right ? "11,98,196" : "200,40,40";
  return concat("<td class=\"n\" style=\"background:rgba(", colour, ",",
                fixed(0.55 * std::sqrt(share), 3), ")\">", count, " <small>", fixed(100 * share, 0),
                " %</small></td>");
}

}  // namespace

std::string confusion_table(const std::vector<std::string>& classes,
                            const std::vector<std::int64_t>& counts) {
  std::string text =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">\n"
      "<table id=\"confusion\">\n<caption>Samples by true class (rows) and predicted class "
      "(columns), with their share of the row</caption>\n<thead><tr><th scope=\"col\">true \\ "
      "predicted</th>";
  for (const std::string& name : classes) {
    text += concat("<th scope=\"col\" class=\"n\">", escape_markup(name), "</th>");
  }
  text += "</tr></thead>\n<tbody>\n";
  auto row = counts.begin();
  for (std::size_t r = 0; r < classes.size(); ++r) {
    const auto end = row + std::ssize(classes);
    const std::int64_t support = std::accumulate(row, end, std::int64_t{0});
    text += concat("<tr><th scope=\"row\">", escape_markup(classes[r]), "</th>");
    for (std::size_t c = 0; row != end; ++row, ++c) text += matrix_cell(*row, support, r == c);
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

}  // namespace trainer::results
