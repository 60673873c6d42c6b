#include "commands/suspects/suspects.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/csv.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "commands/suspects/copies.h"
#include "commands/suspects/wrong_labels.h"
#include "results/page/sheet.h"

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

}  // namespace

Suspects find_suspects(const LabelledImages& images, const JudgingRuns& runs,
                       const config::Environment& environment, const Warn& warn) {
  const JudgedImages judged = judge_images(runs, images, environment, warn);
  Suspects result;
  result.by_crossval = runs.is_crossval;
  result.images = std::ssize(images.all());
  result.judged = std::ssize(judged.images);
  result.unknown = judged.unknown;
  SuspectList list(images.all().size());
  add_wrong_labels(images, judged, result, list);
  add_copies(images, find_copied_images(images, warn), result, list);
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

}  // namespace trainer::commands
