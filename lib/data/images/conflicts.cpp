#include "data/images/conflicts.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <unordered_map>

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

// Returns the files of which one of another class has the same key; 0 is the key of files that are
// not compared. `keys` is indexed by the place in `files`.
Places find_shared(const ImageList& list, const Places& files,
                   const std::vector<std::uint64_t>& keys) {
  std::unordered_map<std::uint64_t, Places> by_key;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (keys[i] != 0) by_key[keys[i]].push_back(files[i]);
  }
  Places shared;
  for (const auto& [key, places] : by_key) {
    if (!has_several_classes(list, places)) continue;
    shared.insert(shared.end(), places.begin(), places.end());
  }
  std::ranges::sort(shared);
  return shared;
}

// Returns the bytes of an image as it is stored; 0 if the file cannot be read.
std::uint64_t find_size(const ListedFile& file) {
  if (file.bytes >= 0) return static_cast<std::uint64_t>(file.size());
  std::error_code error;
  const auto whole = std::filesystem::file_size(file.path, error);
  return error ? 0 : whole;
}

// Returns a checksum of the size and of some bytes from the middle of an image, by which files of
// equal size differ at little cost; 0 if they cannot be read.
std::uint64_t checksum_middle(const ListedFile& file) {
  constexpr std::uint64_t kBytes = 4096;
  const std::uint64_t size = find_size(file);
  if (size == 0) return 0;
  if (file.zip) return size << 32 | file.zip->crc;
  const std::uint64_t count = std::min(size, kBytes);
  std::vector<std::uint8_t> bytes(count);
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(file.offset + static_cast<std::streamoff>((size - count) / 2));
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count))) {
    return 0;
  }
  return size << 32 | crc32c(bytes);
}

// Returns the files that may equal a file of another class.
Places find_candidates(const ImageList& list) {
  Places all(list.files.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::uint64_t> keys;
  for (const ListedFile& file : list.files) keys.push_back(find_size(file));
  const Places of_size = find_shared(list, all, keys);
  keys.assign(of_size.size(), 0);
  parallel_for(of_size.size(),
               [&](std::size_t i) { keys[i] = checksum_middle(list.files[of_size[i]]); });
  return find_shared(list, of_size, keys);
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

// Returns the first of these files whose class is not that of the first.
std::size_t find_other_class(const ImageList& list, const Places& places) {
  return *std::ranges::find_if(places, [&](std::size_t i) {
    return list.files[i].label != list.files[places.front()].label;
  });
}

// Throws DataError if a class that has files would keep none. A set of labels often belongs to a
// single image, so that a list with several labels per image only has to keep one file.
void check_classes(const ImageList& list, const std::vector<bool>& is_left_out,
                   const std::vector<std::string>& classes, const config::Data& data) {
  constexpr std::size_t kMaxNames = 5;
  if (list.label_sets) {
    if (std::ranges::find(is_left_out, false) != is_left_out.end()) return;
    throw DataError(list.source, "data.on_conflict: ", spell(data.on_conflict),
                    " leaves no file; correct the labels, or set data.on_conflict: keep");
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
    emptied.push_back(concat(printable(classes[label]), " (", counted(files[label], "file"), ")"));
  }
  if (emptied.empty()) return;
  const char* const noun = emptied.size() == 1 ? "class " : "classes ";
  throw DataError(list.source, "data.on_conflict: ", spell(data.on_conflict), " leaves no file of ",
                  noun, join_first(std::move(emptied), kMaxNames),
                  ", because each of its photos has another class too; correct the labels, or set "
                  "data.on_conflict: keep");
}

}  // namespace

std::string describe_conflicts(const config::Data& data, const std::vector<std::string>& classes,
                               const ImageList& list) {
  const std::vector<Places> conflicts = find_conflicts(list, data);
  if (conflicts.empty()) return "";
  const Places& example = conflicts.front();
  const std::size_t other = find_other_class(list, example);
  return concat(list.source, ": ", conflicts.size(),
                conflicts.size() == 1 ? " photo is" : " photos are", " in several classes, e.g. ",
                describe_file(list, example.front(), classes), " = ",
                describe_file(list, other, classes),
                "; `trainer data` lists them, and data.on_conflict: drop leaves them out");
}

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
  const std::size_t other = find_other_class(list, example);
  std::string line = concat(
      list.source, ": data.on_conflict: ", spell(data.on_conflict), " leaves out ",
      counted(count, "file"), " of ", conflicts.size(),
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
