#include <algorithm>

#include "base/error.h"
#include "base/formats/table.h"
#include "commands/page/page.h"
#include "commands/report/sections.h"

namespace trainer::commands {
namespace {

// Small pictures are enlarged by a whole factor, so that their pixels stay squares.
constexpr int kShownSide = 112;

std::string picture(const Mistake& mistake, const std::string& url, const std::string& text) {
  const int side = std::max(mistake.width, mistake.height);
  const int factor = std::max(1, kShownSide / side);
  return concat("<img src=\"", url, "\" width=\"", mistake.width * factor, "\" height=\"",
                mistake.height * factor, "\"", factor > 1 ? " class=\"pixels\"" : "", " alt=\"",
                escape_markup(text), "\"/>");
}

// The sample and beside it its heatmap.
std::string pictures(const Mistake& mistake) {
  if (mistake.picture.empty()) return "";
  const std::string sample = picture(
      mistake, mistake.picture,
      concat("Sample ", mistake.sample, ": ", mistake.label, " taken for ", mistake.predicted));
  if (mistake.heatmap.empty()) return sample;
  return concat("<div>", sample,
                picture(mistake, mistake.heatmap,
                        concat("Heatmap of ", mistake.predicted, " for sample ", mistake.sample)),
                "</div>");
}

// Shortens a long path to its end.
std::string short_name(const std::string& sample) {
  constexpr std::size_t kMaxLength = 28;
  const std::string name = std::filesystem::path(sample).filename().string();
  return name.size() <= kMaxLength ? name : "..." + name.substr(name.size() - kMaxLength);
}

std::string item(const Mistake& mistake, bool has_probabilities) {
  const auto number = [&](double value) {
    return has_probabilities ? percent(value) : "output " + fixed(value, 4);
  };
  return concat("<li>", pictures(mistake), "<span><b>", escape_markup(mistake.label), "</b> (",
                number(mistake.of_label), ")<br/>taken for <b>", escape_markup(mistake.predicted),
                "</b> (", number(mistake.of_predicted), ")<br/><small title=\"",
                escape_markup(mistake.sample), "\">", escape_markup(short_name(mistake.sample)),
                "</small></span></li>\n");
}

}  // namespace

std::string mistakes_section(const Mistakes& mistakes) {
  std::string text = heading(mistakes.split.empty() ? "Worst mistakes"
                                                    : "Worst mistakes (" + mistakes.split + ")");
  if (!mistakes.reason.empty()) {
    return text + "<p>No pictures: " + escape_markup(mistakes.reason) + "</p>\n";
  }
  text += concat("<p>", grouped(mistakes.wrong), " of ", grouped(mistakes.looked_at),
                 mistakes.looked_at < mistakes.samples
                     ? concat(" samples (of ", grouped(mistakes.samples), "; time ran out)")
                     : " samples",
                 " are wrong with the ",
                 mistakes.checkpoint == CheckpointChoice::kBest ? "best" : "last", " checkpoint.");
  if (mistakes.worst.empty()) return text + "</p>\n";
  text += concat(" Shown: the ", mistakes.worst.size(), " whose own class got the least ",
                 mistakes.has_probabilities ? "probability" : "output", ".");
  const bool has_heatmaps = !mistakes.heatmap_method.empty();
  if (has_heatmaps) {
    text += concat(" Beside each, red marks where the model sees the class that it predicted (",
                   mistakes.heatmap_method, ").");
  }
  text += concat("</p>\n<ul class=\"mistakes", has_heatmaps ? " pairs" : "", "\">\n");
  for (const Mistake& mistake : mistakes.worst) text += item(mistake, mistakes.has_probabilities);
  return text + "</ul>\n";
}

}  // namespace trainer::commands
