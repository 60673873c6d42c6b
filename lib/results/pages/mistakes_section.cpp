
#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/page/page.h"
#include "results/page/picture.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

std::string class_line(const std::string& before, const std::string& name, double value,
                       bool has_probabilities) {
  return concat(before, bold(name), " (",
                has_probabilities ? percent(value) : "output " + fixed(value, 4), ")");
}

SampleTile make_tile(const ShownSample& shown, bool has_probabilities) {
  SampleTile tile;
  tile.picture = shown.picture;
  tile.heatmap = shown.heatmap;
  tile.picture_text = concat("Sample ", shown.sample, ": ", shown.label);
  tile.heatmap_text = concat("Heatmap of ", shown.predicted, " for sample ", shown.sample);
  tile.lines = {class_line("", shown.label, shown.of_label, has_probabilities)};
  tile.name = shown.sample;
  if (shown.predicted == shown.label) return tile;
  tile.picture_text += " taken for " + shown.predicted;
  tile.lines.push_back(
      class_line("taken for ", shown.predicted, shown.of_predicted, has_probabilities));
  return tile;
}

std::vector<SampleTile> make_tiles(const std::vector<ShownSample>& samples,
                                   bool has_probabilities) {
  std::vector<SampleTile> tiles;
  for (const ShownSample& shown : samples) tiles.push_back(make_tile(shown, has_probabilities));
  return tiles;
}

std::string group_part(const MistakeGroup& group, bool has_probabilities) {
  std::string text = subheading(concat(group.label, ", taken for ", group.predicted, " (",
                                       grouped(group.count), ")")) +
                     sample_list(make_tiles(group.shown, has_probabilities));
  if (group.more.empty()) return text;
  return text + folded(concat("Names of ", group.more.size(), " more"),
                       "<p class=\"names\">" + escape_markup(join(group.more)) + "</p>\n");
}

// States what the groups are and which of their samples are shown.
std::string explain_groups(const Mistakes& mistakes) {
  const auto shown = std::ssize(mistakes.groups);
  return concat(" Grouped by true and predicted class, the largest group first",
                shown < mistakes.all_groups
                    ? concat(" (", shown, " of ", mistakes.all_groups, " groups)")
                    : std::string(),
                "; of each group those whose own class got the least ",
                mistakes.has_probabilities ? "probability." : "output.");
}

}  // namespace

std::string mistakes_section(const Mistakes& mistakes) {
  const std::string split = mistakes.split.empty() ? "" : " (" + mistakes.split + ")";
  std::string text = heading("Mistakes" + split);
  if (!mistakes.reason.empty()) {
    return text + "<p>No pictures: " + escape_markup(mistakes.reason) + "</p>\n";
  }
  text += concat("<p>", grouped(mistakes.wrong), " of ", grouped(mistakes.looked_at),
                 mistakes.looked_at < mistakes.samples
                     ? concat(" samples (of ", grouped(mistakes.samples), "; time ran out)")
                     : " samples",
                 " are wrong with the ",
                 mistakes.checkpoint == CheckpointChoice::kBest ? "best" : "last", " checkpoint.");
  if (!mistakes.groups.empty()) text += explain_groups(mistakes);
  if (!mistakes.heatmap_method.empty()) {
    text +=
        concat(" Beside each sample, red marks where the model sees the class that it predicted (",
               mistakes.heatmap_method, ").");
  }
  text += "</p>\n";
  for (const MistakeGroup& group : mistakes.groups) {
    text += group_part(group, mistakes.has_probabilities);
  }
  if (mistakes.right.empty()) return text;
  return concat(text, heading("Right answers" + split), "<p>", mistakes.right.size(), " of ",
                grouped(mistakes.looked_at - mistakes.wrong),
                ": the first of each class, in the order of the data.</p>\n",
                sample_list(make_tiles(mistakes.right, mistakes.has_probabilities)));
}

}  // namespace trainer::results
