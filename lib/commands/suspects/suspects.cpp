#include "commands/suspects/suspects.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "commands/suspects/copies.h"
#include "commands/suspects/wrong_labels.h"
#include "results/page/sheet.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Collects the reasons of each image, in the order in which they are given.
class SuspectList {
 public:
  explicit SuspectList(std::size_t images) : places_(images) {}

  // Returns the suspect, whose score is that of its first reason.
  Suspect& add(std::size_t image, SuspectReason reason, double score) {
    if (places_[image] == 0) {
      list_.emplace_back();
      list_.back().image = image;
      list_.back().score = score;
      places_[image] = list_.size();
    }
    Suspect& suspect = list_[places_[image] - 1];
    suspect.reasons.push_back(reason);
    return suspect;
  }
  std::vector<Suspect> take() { return std::move(list_); }

 private:
  std::vector<std::size_t> places_;  // in list_, from 1; 0 for images that are not suspect
  std::vector<Suspect> list_;
};

void add_wrong_labels(const LabelledImages& images, const JudgedImages& judged, Suspects& result,
                      SuspectList& list) {
  std::vector<std::int32_t> labels;
  for (const std::size_t image : judged.images) labels.push_back(images.all()[image].label);
  const std::size_t classes = judged.probabilities.size() / judged.images.size();
  for (const WrongLabel& wrong : find_wrong_labels(labels, judged.probabilities, classes)) {
    list.add(judged.images[wrong.sample], SuspectReason::kWrongLabel, wrong.margin).suggested =
        wrong.suggested;
    ++result.wrong_labels;
  }
}

// Returns groups of images that show the same picture. Images that cannot be read are in none.
std::vector<std::vector<std::size_t>> find_copied_images(const LabelledImages& images,
                                                         const Warn& warn) {
  const data::DatasetSpec& spec = images.spec();
  if (spec.image_type != DType::kUInt8) {
    warn(Notice::note("copies are looked for only among images of bytes, and these are numbers"));
    return {};
  }
  const std::size_t count = images.all().size();
  std::vector<PictureHash> hashes(count);
  std::vector<std::string> errors(count);
  parallel_for(count, [&](std::size_t i) {
    thread_local std::vector<std::uint8_t> pixels;
    thread_local std::vector<std::byte> label;
    pixels.resize(spec.image_bytes());
    const LabelledImage& image = images.all()[i];
    const data::Dataset& set = images.dataset(image.split);
    label.resize(set.spec().label_bytes());
    try {
      set.get(image.index, pixels.data(), label.data());
      const Shape& shape = spec.image_shape;
      hashes[i] = hash_picture(pixels, static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                               static_cast<int>(shape[2]));
    } catch (const DataError& error) {
      errors[i] = error.what();
    }
  });
  std::vector<std::size_t> readable;
  std::vector<PictureHash> pictures;
  for (std::size_t i = 0; i < count; ++i) {
    if (!errors[i].empty()) continue;
    readable.push_back(i);
    pictures.push_back(hashes[i]);
  }
  if (readable.size() < count) {
    const auto first =
        std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
    warn(concat(
        count - readable.size(), " of ", count,
        " images cannot be read and are not compared with others; the first: ", printable(*first)));
  }
  std::vector<std::vector<std::size_t>> groups = find_copies(pictures);
  for (std::vector<std::size_t>& group : groups) {
    for (std::size_t& picture : group) picture = readable[picture];
  }
  return groups;
}

// Adds the groups of copies that have several labels, then those that are in several splits.
void add_copies(const LabelledImages& images, const std::vector<std::vector<std::size_t>>& groups,
                Suspects& result, SuspectList& list) {
  std::vector<std::vector<std::size_t>> in_splits;
  const auto add = [&](const std::vector<std::size_t>& group, SuspectReason reason) {
    result.copies.push_back(group);
    for (const std::size_t image : group) {
      Suspect& suspect = list.add(image, reason, 1);
      suspect.copies = group;
      std::erase(suspect.copies, image);
    }
  };
  for (const std::vector<std::size_t>& group : groups) {
    std::set<std::int32_t> labels;
    std::set<Split> splits;
    for (const std::size_t image : group) {
      labels.insert(images.all()[image].label);
      splits.insert(images.all()[image].split);
    }
    if (labels.size() > 1) {
      add(group, SuspectReason::kCopyOfOtherLabel);
    } else if (splits.size() > 1) {
      in_splits.push_back(group);
    } else {
      ++result.harmless_copies;
    }
  }
  for (const std::vector<std::size_t>& group : in_splits) {
    add(group, SuspectReason::kCopyInOtherSplit);
  }
}

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

Suspects find_suspects(const LabelledImages& images, const JudgingRuns& runs,
                       const inference::OpenOptions& options) {
  const JudgedImages judged = judge_images(runs, images, options);
  Suspects result;
  result.by_crossval = runs.is_crossval;
  result.images = std::ssize(images.all());
  result.judged = std::ssize(judged.images);
  result.unknown = judged.unknown;
  SuspectList list(images.all().size());
  add_wrong_labels(images, judged, result, list);
  add_copies(images, find_copied_images(images, options.warn), result, list);
  result.list = list.take();
  return result;
}

void write_suspects(const Suspects& suspects, const LabelledImages& images, const Path& path) {
  std::string text = "path,label,suggested_label,reasons,score\n";
  for (const Suspect& suspect : suspects.list) {
    const LabelledImage& image = images.all()[suspect.image];
    std::string reasons;
    for (const SuspectReason reason : suspect.reasons) {
      reasons += concat(reasons.empty() ? "" : " ", spell(reason));
    }
    text += concat(csv_cell(image.path), ',', csv_cell(images.class_name(image.label)), ',',
                   suspect.suggested ? csv_cell(images.class_name(*suspect.suggested)) : "", ',',
                   reasons, ',', csv_number(suspect.score), '\n');
  }
  write_file_atomic(path, text);
}

void write_suspect_sheet(const Suspects& suspects, const LabelledImages& images,
                         std::int64_t samples, const Path& path) {
  if (images.spec().image_type != DType::kUInt8) {
    throw ConfigError({}, "--sheet: a sheet can only be drawn of images of bytes");
  }
  std::vector<std::byte> label(images.spec().label_bytes());
  std::vector<results::Tile> tiles;
  for (std::int64_t i = 0; i < std::min(samples, std::ssize(suspects.list)); ++i) {
    const Suspect& suspect = suspects.list[i];
    const LabelledImage& image = images.all()[suspect.image];
    results::Tile& tile = tiles.emplace_back();
    tile.image.resize(images.spec().image_bytes());
    images.dataset(image.split).get(image.index, tile.image.data(), label.data());
    const std::string name = images.class_name(image.label);
    tile.lines = {suspect.suggested ? concat(name, " > ", images.class_name(*suspect.suggested))
                                    : name + " copy",
                  Path(image.path).filename().string()};
  }
  write_file_atomic(path, results::draw_tiles(images.spec().image_shape, tiles));
}

std::string to_text(const Suspects& suspects, const LabelledImages& images) {
  return describe_judged(suspects) + list_wrong_labels(suspects, images) +
         list_copies(suspects, images);
}

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
