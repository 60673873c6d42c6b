#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "results/document/document.h"
#include "results/page/svg.h"

namespace trainer::results {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#ffffff;--line:#d0d7de;--band:#f3f5f7;--link:#0b62c4}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#a6b0bb;--paper:#0f1318;--line:#343b44;--band:#181d24;--link:#6cb2ff}}
body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.25rem 0 .5rem}
p.lead{color:var(--soft);margin:0 0 1rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;min-width:0}
.scroll{overflow-x:auto;max-width:100%}.scroll+.scroll{margin-top:1rem}
.scroll:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px}
svg.chart{width:100%;min-width:28rem;max-width:44rem;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.25rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th.n,td.n{text-align:right}td.n{white-space:nowrap}td.n small{display:block}
thead th{background:var(--band)}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--link)}
pre{overflow-x:auto;background:var(--band);padding:.5rem}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.5rem 0;padding:0}
.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
.bars{margin:.5rem 0}.bars .name{display:block;color:var(--soft);font-size:.9rem}
.bar{display:flex;height:1.5rem;background:var(--band);border-radius:3px;overflow:hidden}
.bar span{display:block;min-width:1px}
.part0{background:#d55e00}.part1{background:#cc79a7}.part2{background:#56b4e9}
.part3{background:#0072b2}
.part4{background:#e69f00}.part5{background:#009e73}.part6{background:#8c959f}
ul.samples{list-style:none;margin:0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:1rem}
ul.samples li{min-width:0;overflow-wrap:anywhere;font-size:.875rem;line-height:1.35}
ul.samples img{display:block;max-width:100%;height:auto;margin-bottom:.35rem;border:1px solid var(--line)}
ul.samples.pairs{grid-template-columns:repeat(auto-fill,minmax(15rem,1fr))}
ul.samples div{display:flex;gap:.25rem}ul.samples div img{min-width:0;max-width:50%}
ul.samples img.pixels{image-rendering:pixelated}ul.samples small{color:var(--soft)}
ul.samples li.wrong{border-left:4px solid #d55e00;padding-left:.5rem}
p.finding{border-left:4px solid #d55e00;padding-left:.75rem}
@page{margin:1.5cm}
@media print{
body{max-width:none;padding:0;font-size:11pt}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.scroll,pre{overflow:visible}pre{white-space:pre-wrap;overflow-wrap:anywhere}
table{max-width:100%;font-size:8pt}th,td{padding:.1rem .3rem;overflow-wrap:anywhere}
thead th{overflow-wrap:break-word}table.wide{font-size:6.5pt}
.charts{grid-template-columns:1fr 1fr}svg.chart{min-width:0}
figure,tr,li,.bars,p.finding{break-inside:avoid}
h1,h2,h3,caption,thead,thead tr{break-after:avoid}thead{display:table-header-group}
figure details{display:none}
ul.samples,ul.samples.pairs{grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.5rem}
ul.samples li{font-size:8pt}
}
)";

constexpr std::size_t kMaxPrintedColumns = 10;  // of a printed page in the usual size

// Returns an element whose content is the text.
std::string element(const std::string& tag, const std::string& text,
                    const std::string& attributes = "") {
  return concat("<", tag, attributes, ">", escape_markup(text), "</", tag, ">");
}

const char* number_class(bool is_number) { return is_number ? " class=\"n\"" : ""; }

// Returns what may be wider than the screen. It scrolls, also by the keyboard.
std::string scrolling(const std::string& label, const std::string& content) {
  return concat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                escape_markup(label), "\">\n", content, "</div>\n");
}

std::string table_row(const Table& table, const std::vector<std::string>& cells) {
  std::string text = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string attributes = number_class(table.is_right(i));
    text += i == 0 ? element("th", cells[i], " scope=\"row\"" + attributes)
                   : element("td", cells[i], attributes);
  }
  return text + "</tr>\n";
}

std::string table_element(const Table& table) {
  const std::vector<std::string>& names = table.header();
  std::string text = concat("<table", names.size() > kMaxPrintedColumns ? " class=\"wide\"" : "",
                            ">\n", element("caption", table.caption()), "\n<thead><tr>");
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += element("th", names[i], concat(" scope=\"col\"", number_class(table.is_right(i))));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows()) text += table_row(table, row);
  return scrolling(table.caption(), text + "</tbody>\n</table>\n");
}

std::string details(const std::string& summary, const std::string& content) {
  return concat("<details>", element("summary", summary), "\n", content, "</details>\n");
}

// Returns the points of a chart, a row for each x.
Table points_table(const Chart& chart) {
  std::vector<std::string> names{chart.x_label};
  std::map<double, std::vector<std::string>> rows;  // by x
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : drawn_points(series)) {
      std::vector<std::string>& row = rows[x];
      row.resize(chart.series.size() + 1);
      row.front() = chart_number(x);
      if (std::isfinite(y)) row[names.size()] = chart_number(y);
    }
    names.push_back(series.name);
  }
  Table table(std::move(names), NumbersFrom{0}, chart.y_label);
  for (auto& [x, row] : rows) table.add(std::move(row));
  return table;
}

std::string chart_figure(const Chart& chart) {
  return concat("<figure>\n", scrolling(chart.title, line_chart(chart)),
                details("Numbers: " + chart.title, table_element(points_table(chart))),
                "</figure>\n");
}

// Returns a cell, blue for right predictions and red for wrong ones.
std::string matrix_cell(std::int64_t count, std::int64_t of, bool is_right) {
  const double share = of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0;
  return concat("<td class=\"n\" style=\"background:rgba(", is_right ? "11,98,196" : "200,40,40",
                ",", fixed(0.55 * std::sqrt(share), 3), ")\">", count, " <small>",
                fixed(100 * share, 0), " %</small></td>");
}

std::string matrix_element(const ConfusionMatrix& matrix) {
  const std::vector<std::string>& classes = matrix.classes;
  std::string text = concat(
      "<table id=\"confusion\">\n<caption>Samples by true class (rows) and "
      "predicted class (columns), with their share of the row</caption>\n",
      "<thead><tr>", element("th", matrix.corner, " scope=\"col\""));
  for (const std::string& name : classes) {
    text += element("th", name, " scope=\"col\" class=\"n\"");
  }
  text += "</tr></thead>\n<tbody>\n";
  auto row = matrix.counts.begin();
  for (std::size_t r = 0; r < classes.size(); ++r) {
    const auto end = row + std::ssize(classes);
    const std::int64_t support = std::accumulate(row, end, std::int64_t{0});
    text += "<tr>" + element("th", classes[r], " scope=\"row\"");
    for (std::size_t c = 0; row != end; ++row, ++c) text += matrix_cell(*row, support, r == c);
    text += "</tr>\n";
  }
  return scrolling("Confusion matrix", text + "</tbody>\n</table>\n");
}

// Returns the names and colours of the parts that some bar has.
std::string bars_legend(const StackedBars& bars) {
  std::string text = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < bars.parts.size(); ++i) {
    const bool is_used =
        std::ranges::any_of(bars.bars, [&](const auto& bar) { return bar.values[i] > 0; });
    if (!is_used) continue;
    text += concat("<li><span class=\"swatch part", i, "\"></span>", escape_markup(bars.parts[i]),
                   "</li>");
  }
  return text + "</ul>\n";
}

// Returns a bar whose length is its share of the longest one.
std::string bar_element(const StackedBars& bars, const StackedBars::Bar& bar, double longest) {
  const double total = std::accumulate(bar.values.begin(), bar.values.end(), 0.0);
  const auto number = [&](double value) { return concat(fixed(value, 2), ' ', bars.unit); };
  std::string text = concat("<div class=\"bars\">", element("span", bar.name, " class=\"name\""),
                            "<div class=\"bar\" role=\"img\" aria-label=\"",
                            escape_markup(bar.name + ": "), escape_markup(number(total)), "\">");
  for (std::size_t i = 0; i < bar.values.size(); ++i) {
    if (bar.values[i] <= 0) continue;
    text += concat("<span class=\"part", i,
                   "\" style=\"width:", fixed(100 * bar.values[i] / longest, 3), "%\" title=\"",
                   escape_markup(concat(bars.parts[i], ": ", number(bar.values[i]), ", ",
                                        percent(bar.values[i] / total))),
                   "\"></span>");
  }
  return text + "</div></div>\n";
}

std::string bars_element(const StackedBars& bars) {
  double longest = 0;
  for (const StackedBars::Bar& bar : bars.bars) {
    longest = std::max(longest, std::accumulate(bar.values.begin(), bar.values.end(), 0.0));
  }
  if (longest <= 0) return "";
  std::string text = bars_legend(bars);
  for (const StackedBars::Bar& bar : bars.bars) text += bar_element(bars, bar, longest);
  return text;
}

std::string render(const std::vector<Block>& blocks);

struct BlockRenderer {
  std::string operator()(const Heading& heading) const {
    return element(heading.level == Heading::Level::kSection ? "h2" : "h3", heading.text) + "\n";
  }
  std::string operator()(const Paragraph& paragraph) const {
    using enum Paragraph::Kind;
    switch (paragraph.kind) {
      case kHeadline:
        return concat("<p class=\"lead\">", element("b", paragraph.text), "</p>\n");
      case kSubtitle:
        return element("p", paragraph.text, " class=\"lead\"") + "\n";
      case kFinding:
        return element("p", paragraph.text, " class=\"finding\"") + "\n";
      case kPlain:
        break;
    }
    return element("p", paragraph.text) + "\n";
  }
  std::string operator()(const BlankLine&) const { return ""; }
  std::string operator()(const Notice& notice) const {
    if (notice.text.empty()) return "";
    const bool is_note = notice.kind == Notice::Kind::kNote;
    return concat("<p>", element("b", is_note ? "Note:" : "Warning:"), ' ',
                  escape_markup(notice.text), "</p>\n");
  }
  std::string operator()(const Table& table) const { return table_element(table); }
  std::string operator()(const Preformatted& lines) const {
    std::string text =
        concat("<pre tabindex=\"0\" aria-label=\"", escape_markup(lines.caption), "\">");
    for (const std::string& line : lines.lines) text += escape_markup(line) + '\n';
    return text + "</pre>\n";
  }
  std::string operator()(const ConfusionMatrix& matrix) const { return matrix_element(matrix); }
  std::string operator()(const Charts& charts) const {
    if (charts.empty()) return "";
    std::string text = "<div class=\"charts\">\n";
    for (const Chart& chart : charts) text += chart_figure(chart);
    return text + "</div>\n";
  }
  std::string operator()(const StackedBars& bars) const { return bars_element(bars); }
  std::string operator()(const Samples& samples) const { return sample_list(samples); }
  std::string operator()(const Folded& hidden) const {
    return details(hidden.summary, render(hidden.blocks));
  }
};

std::string render(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& block : blocks) text += std::visit(BlockRenderer(), block.content);
  return text;
}

}  // namespace

std::string render_html(const Document& document) {
  const std::string title = escape_markup(document.title);
  const int seconds = document.refresh_seconds;
  const std::string refresh =
      seconds > 0 ? concat("<meta http-equiv=\"refresh\" content=\"", seconds, "\"/>\n") : "";
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n",
      refresh, "<title>", title, "</title>\n<link rel=\"icon\" href=\"data:,\"/>\n<style>", kStyle,
      "</style>\n</head>\n<body>\n<main>\n<h1>", title, "</h1>\n", render(document.blocks),
      "</main>\n</body>\n</html>\n");
}

}  // namespace trainer::results
