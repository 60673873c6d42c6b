// `data --suspects`: images whose labels should be looked at, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "base/spelling.h"
#include "commands/suspects/judged.h"
#include "commands/suspects/labelled_images.h"
#include "results/field.h"

namespace trainer::commands {

enum class SuspectReason {
  kWrongLabel,        // see wrong_labels.h
  kCopyOfOtherLabel,  // see copies.h
  kCopyInOtherSplit,  // both have the same label
};
constexpr auto spellings(SuspectReason) {
  using enum SuspectReason;
  return std::to_array<Spelling<SuspectReason>>({{kWrongLabel, "wrong_label"},
                                                 {kCopyOfOtherLabel, "copy_of_other_label"},
                                                 {kCopyInOtherSplit, "copy_in_other_split"}});
}

struct Suspect {
  std::size_t image = 0;  // index into LabelledImages
  std::vector<SuspectReason> reasons;
  std::optional<std::int32_t> suggested;  // the proposal of wrong_labels.h
  // The score of the first reason is larger for stronger suspicion: WrongLabel::margin, or 1 for a
  // copy.
  double score = 0;
  std::vector<std::size_t> copies;  // other images that show the same picture
};

struct Suspects {
  std::vector<Suspect> list;  // sorted by reason, then by score or group of copies
  bool by_crossval = false;
  std::int64_t images = 0, judged = 0;
  std::int64_t unknown = 0;  // see JudgedImages
  std::int64_t wrong_labels = 0;
  // Groups of images that show the same picture and have several labels, or are in several splits.
  std::vector<std::vector<std::size_t>> copies;
  std::int64_t harmless_copies = 0;  // groups with one label in one split
};

// Looks for wrong labels among the images that the runs judge, and for copies among all images.
// Warns if images cannot be read. Throws DataError.
Suspects find_suspects(const LabelledImages& images, const JudgingRuns& runs,
                       const inference::OpenOptions& options);

// Writes a CSV file with the columns path, label, suggested_label, reasons (separated by blanks)
// and score.
void write_suspects(const Suspects& suspects, const LabelledImages& images, const Path& path);
// Writes a PNG with the first `samples` suspects, their labels, and the suggested ones.
void write_suspect_sheet(const Suspects& suspects, const LabelledImages& images,
                         std::int64_t samples, const Path& path);

// Returns the report for people: the first suspects of each reason, and the totals.
std::string to_text(const Suspects& suspects, const LabelledImages& images);
// A suspect as a line of JSON.
struct SuspectEvent {
  std::string path, label;
  Split split = Split::kTrain;
  std::optional<std::string> suggested;
  std::vector<SuspectReason> reasons;
  double score = 0;
  std::vector<std::string> copies;
};
void fields(results::FieldVisitor& v, SuspectEvent& suspect);
void fields(results::FieldVisitor& v, Suspects& suspects);  // without the list
// Returns a line for each suspect, and one for all.
std::string to_json(const Suspects& suspects, const LabelledImages& images);

}  // namespace trainer::commands
