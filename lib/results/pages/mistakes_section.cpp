
#include "base/error.h"
#include "base/text.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

// Returns " (98.12 %)" for a probability.
std::string output_text(double value, bool is_probability) {
  return concat(" (", is_probability ? percent(value) : "output " + fixed(value, 4), ")");
}

SampleTile make_tile(const ShownSample& shown, bool has_probabilities) {
  SampleTile tile;
  tile.picture = shown.picture;
  tile.heatmap = shown.heatmap;
  tile.picture_text = concat("Sample ", shown.sample, ": ", shown.label);
  tile.heatmap_text = concat("Heatmap of ", shown.predicted, " for sample ", shown.sample);
  tile.lines = {{"", shown.label, output_text(shown.of_label, has_probabilities)}};
  tile.name = shown.sample;
  if (shown.predicted == shown.label) return tile;
  tile.picture_text += " taken for " + shown.predicted;
  tile.lines.push_back(
      {"taken for ", shown.predicted, output_text(shown.of_predicted, has_probabilities)});
  return tile;
}

Samples make_tiles(const std::vector<ShownSample>& samples, bool has_probabilities) {
  Samples tiles;
  for (const ShownSample& shown : samples) tiles.push_back(make_tile(shown, has_probabilities));
  return tiles;
}

void add_group(Document& section, const MistakeGroup& group, bool has_probabilities) {
  section.add(
      Heading{concat(group.label, ", taken for ", group.predicted, " (", grouped(group.count), ")"),
              Heading::Level::kPart});
  section.add(make_tiles(group.shown, has_probabilities));
  if (group.more.empty()) return;
  section.add(
      Folded{concat("Names of ", group.more.size(), " more"), {{Paragraph{join(group.more)}}}});
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

std::string describe_mistakes(const Mistakes& mistakes) {
  if (!mistakes.reason.empty()) return "No pictures: " + mistakes.reason;
  std::string text =
      concat(grouped(mistakes.wrong), " of ", grouped(mistakes.looked_at),
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
  return text;
}

}  // namespace

Document mistakes_section(const Mistakes& mistakes) {
  const std::string split = mistakes.split.empty() ? "" : " (" + mistakes.split + ")";
  Document section;
  section.add(Heading{"Mistakes" + split});
  section.add(Paragraph{describe_mistakes(mistakes)});
  if (!mistakes.reason.empty()) return section;
  for (const MistakeGroup& group : mistakes.groups) {
    add_group(section, group, mistakes.has_probabilities);
  }
  if (mistakes.right.empty()) return section;
  section.add(Heading{"Right answers" + split});
  section.add(
      Paragraph{concat(mistakes.right.size(), " of ", grouped(mistakes.looked_at - mistakes.wrong),
                       ": the first of each class, in the order of the data.")});
  section.add(make_tiles(mistakes.right, mistakes.has_probabilities));
  return section;
}

}  // namespace trainer::results
