#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/suspects/suspects.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

constexpr std::int64_t kMaxSuspectsListed = 20;  // of each reason

bool has_reason(const Suspect& suspect, SuspectReason reason) {
  return std::ranges::find(suspect.reasons, reason) != suspect.reasons.end();
}

// Returns which images have been judged, and by whom.
std::string describe_judged(const Suspects& suspects) {
  std::string text =
      concat("judged: ", grouped(suspects.judged), " of ", grouped(suspects.images), " images, ");
  text += suspects.by_crossval
              ? "each by the run of crossval that has not trained on it\n"
              : "those of the validation split of the run; give the folder of `trainer crossval`, "
                "which judges all training images\n";
  if (suspects.unknown > 0) {
    text +=
        concat("judged samples that are not among these images: ", grouped(suspects.unknown), '\n');
  }
  return text;
}

std::string list_wrong_labels(const Suspects& suspects, const LabelledImages& images) {
  std::ostringstream out;
  out << "likely wrong labels: " << grouped(suspects.wrong_labels) << '\n';
  if (suspects.wrong_labels == 0) return out.str();
  Table table({"path", "label", "suggested", "score"}, {3});
  std::int64_t listed = 0;
  for (const Suspect& suspect : suspects.list) {
    if (!has_reason(suspect, SuspectReason::kWrongLabel) || listed == kMaxSuspectsListed) continue;
    const LabelledImage& image = images.all()[suspect.image];
    table.add({printable(image.path), printable(images.class_name(image.label)),
               printable(images.class_name(*suspect.suggested)), fixed(suspect.score, 3)});
    ++listed;
  }
  table.print(out, "  ");
  if (listed < suspects.wrong_labels) {
    out << "  and " << grouped(suspects.wrong_labels - listed) << " more\n";
  }
  return out.str();
}

std::string list_copies(const Suspects& suspects, const LabelledImages& images) {
  const std::int64_t groups = std::ssize(suspects.copies);
  std::string text = concat("copies with several labels or in several splits: ", grouped(groups),
                            groups == 1 ? " group\n" : " groups\n");
  for (std::int64_t i = 0; i < std::min(groups, kMaxSuspectsListed); ++i) {
    const char* separator = "  ";
    for (const std::size_t one : suspects.copies[i]) {
      const LabelledImage& image = images.all()[one];
      text += concat(separator, printable(image.path), " (", to_string(image.split), ", ",
                     printable(images.class_name(image.label)), ')');
      separator = " = ";
    }
    text += '\n';
  }
  if (groups > kMaxSuspectsListed) {
    text += concat("  and ", grouped(groups - kMaxSuspectsListed), " more groups\n");
  }
  if (suspects.harmless_copies > 0) {
    text += concat("  besides, groups of copies with one label in one split: ",
                   grouped(suspects.harmless_copies), '\n');
  }
  return text;
}

}  // namespace

std::string to_text(const Suspects& suspects, const LabelledImages& images) {
  return describe_judged(suspects) + list_wrong_labels(suspects, images) +
         list_copies(suspects, images);
}

// A suspect as a line of JSON.
struct SuspectEvent {
  std::string path, label;
  Split split = Split::kTrain;
  std::optional<std::string> suggested;
  std::vector<SuspectReason> reasons;
  double score = 0;
  std::vector<std::string> copies;
};

void fields(results::FieldVisitor& v, SuspectEvent& suspect) {
  v.event("suspect");
  v("path", suspect.path, "The image.");
  v("split", suspect.split, "Its split.");
  v("label", suspect.label, "Its class.");
  v("suggested_label", suspect.suggested, "The class that is likelier; null without one.");
  v("reasons", suspect.reasons, "Why it is suspected.");
  v("score", suspect.score, "Larger for stronger suspicion.");
  v("copies", suspect.copies, "Other images that show the same picture.");
}

void fields(results::FieldVisitor& v, Suspects& suspects) {
  v.event("suspects");
  v.derived("judged_by", std::string(suspects.by_crossval ? "crossval" : "run"), "Who judged.");
  v("images", suspects.images, "Images of the config.");
  v("judged", suspects.judged, "Those that were judged.");
  v("unknown", suspects.unknown, "Judged samples that are not among the images.");
  v("wrong_labels", suspects.wrong_labels, "Likely wrong labels.");
  v.derived("copy_groups", suspects.copies.size(), "Copies with several labels or splits.");
  v("harmless_copy_groups", suspects.harmless_copies, "Copies with one label in one split.");
}

std::string to_json(const Suspects& suspects, const LabelledImages& images) {
  std::string text;
  for (const Suspect& suspect : suspects.list) {
    const LabelledImage& image = images.all()[suspect.image];
    SuspectEvent event{
        image.path, images.class_name(image.label), image.split, {}, suspect.reasons, suspect.score,
        {}};
    if (suspect.suggested) event.suggested = images.class_name(*suspect.suggested);
    for (const std::size_t copy : suspect.copies) event.copies.push_back(images.all()[copy].path);
    text += results::to_line(event);
  }
  return text + results::to_line(suspects);
}

}  // namespace trainer::commands
