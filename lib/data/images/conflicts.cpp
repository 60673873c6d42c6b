#include "data/images/conflicts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "base/threads/parallel.h"

namespace trainer::data {
namespace {

using Places = std::vector<std::size_t>;  // indices of files in a list, ascending

bool has_several_classes(const ImageList& list, const Places& places) {
  return std::ranges::any_of(places, [&](std::size_t i) {
    return list.files[i].label != list.files[places.front()].label;
  });
}

// Returns the files whose size a file of another class has, too.
Places find_candidates(const ImageList& list) {
  std::map<std::int64_t, Places> by_size;
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    const ListedFile& file = list.files[i];
    std::error_code error;
    const auto whole = std::filesystem::file_size(file.path, error);
    if (error) continue;
    by_size[file.bytes < 0 ? static_cast<std::int64_t>(whole) : file.size()].push_back(i);
  }
  Places candidates;
  for (const auto& [size, places] : by_size) {
    if (!has_several_classes(list, places)) continue;
    candidates.insert(candidates.end(), places.begin(), places.end());
  }
  std::ranges::sort(candidates);
  return candidates;
}

// Returns the files of each photo that has several classes, in the order of the list.
std::vector<Places> find_conflicts(const ImageList& list, const config::Data& data) {
  const Places candidates = find_candidates(list);
  const ImageLimits limits{data.max_pixels, data.max_file_size};
  std::vector<std::string> hashes(candidates.size());
  parallel_for(candidates.size(), [&](std::size_t i) {
    thread_local std::vector<std::uint8_t> bytes;
    try {
      read_image_file(list.files[candidates[i]].stored(), limits, bytes);
    } catch (const DataError&) {
      return;  // data.on_error decides when it is read for training
    }
    hashes[i] = sha256(bytes);
  });
  std::map<std::string, Places> by_hash;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!hashes[i].empty()) by_hash[hashes[i]].push_back(candidates[i]);
  }
  std::vector<Places> conflicts;
  for (auto& [hash, places] : by_hash) {
    if (has_several_classes(list, places)) conflicts.push_back(std::move(places));
  }
  std::ranges::sort(conflicts);
  return conflicts;
}

std::string describe_file(const ImageList& list, std::size_t place,
                          const std::vector<std::string>& classes) {
  return concat(list.files[place].describe(), " (", list.label_name(place, classes), ')');
}

// Throws DataError if a class that has files would keep none. A set of labels often belongs to a
// single image, so that a list with several labels per image only has to keep one file.
void check_classes(const ImageList& list, const std::vector<bool>& is_left_out,
                   const std::vector<std::string>& classes, const config::Data& data) {
  constexpr std::size_t kMaxNames = 5;
  if (list.label_sets) {
    if (std::ranges::find(is_left_out, false) != is_left_out.end()) return;
    throw DataError(list.source, concat("data.on_conflict: ", spell(data.on_conflict),
                                        " leaves no file; correct the labels, or set "
                                        "data.on_conflict: keep"));
  }
  std::vector<std::int64_t> files(classes.size()), kept(classes.size());
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    const std::size_t label = list.files[i].label;
    ++files[label];
    kept[label] += is_left_out[i] ? 0 : 1;
  }
  std::vector<std::string> emptied;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (kept[label] > 0 || files[label] == 0) continue;
    emptied.push_back(concat(printable(classes[label]), " (", files[label],
                             files[label] == 1 ? " file)" : " files)"));
  }
  if (emptied.empty()) return;
  const char* const noun = emptied.size() == 1 ? "class " : "classes ";
  throw DataError(
      list.source,
      concat("data.on_conflict: ", spell(data.on_conflict), " leaves no file of ", noun,
             join_first(std::move(emptied), kMaxNames),
             ", because each of its photos has another class too; correct the labels, or set "
             "data.on_conflict: keep"));
}

}  // namespace

void resolve_conflicts(const config::Data& data, const std::vector<std::string>& classes,
                       ImageList& list) {
  if (data.on_conflict == config::OnConflict::kKeep) return;
  const std::vector<Places> conflicts = find_conflicts(list, data);
  if (conflicts.empty()) return;
  std::vector<bool> is_left_out(list.files.size());
  std::int64_t count = 0;
  for (const Places& places : conflicts) {
    const std::int32_t first = list.files[places.front()].label;
    for (const std::size_t i : places) {
      is_left_out[i] =
          data.on_conflict == config::OnConflict::kDrop || list.files[i].label != first;
      count += is_left_out[i] ? 1 : 0;
    }
  }
  check_classes(list, is_left_out, classes, data);
  const Places& example = conflicts.front();
  const std::size_t other = *std::ranges::find_if(example, [&](std::size_t i) {
    return list.files[i].label != list.files[example.front()].label;
  });
  std::string line = concat(
      list.source, ": data.on_conflict: ", spell(data.on_conflict), " leaves out ", count,
      count == 1 ? " file" : " files", " of ", conflicts.size(),
      conflicts.size() == 1 ? " photo that has" : " photos that have", " several classes, e.g. ",
      describe_file(list, example.front(), classes), " = ", describe_file(list, other, classes));
  list.note_left_aside(std::move(line));
  std::vector<ListedFile> files;
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    if (!is_left_out[i]) files.push_back(std::move(list.files[i]));
  }
  list.files = std::move(files);
  list.lines.clear();
}

}  // namespace trainer::data
