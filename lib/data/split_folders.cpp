#include "data/split_folders.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/zip_folder.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

struct SplitName {
  std::string_view name;
  Split split;
};
// The names of the splits; the first name of a split is preferred to its other names.
constexpr std::array<SplitName, 9> kSplitNames{{{"train", Split::kTrain},
                                                {"training", Split::kTrain},
                                                {"validation", Split::kValidation},
                                                {"val", Split::kValidation},
                                                {"valid", Split::kValidation},
                                                {"dev", Split::kValidation},
                                                {"test", Split::kTest},
                                                {"testing", Split::kTest},
                                                {"eval", Split::kTest}}};

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

const SplitName* find_split_name(std::string_view word) {
  const auto found = std::ranges::find(kSplitNames, word, &SplitName::name);
  return found == kSplitNames.end() ? nullptr : &*found;
}

// Returns how well a name denotes its split; a smaller number is better.
std::size_t rank_split_name(const std::string& name) {
  constexpr std::size_t kAnyCase = kSplitNames.size(), kWord = 2 * kSplitNames.size();
  if (const SplitName* exact = find_split_name(name)) {
    return exact - kSplitNames.data();
  }
  if (const SplitName* alone = find_split_name(to_lower(name))) {
    return kAnyCase + static_cast<std::size_t>(alone - kSplitNames.data());
  }
  return kWord;
}

std::vector<std::string> folders_with_images(const Path& folder) {
  std::vector<std::string> names = sub_folders(folder);
  std::erase_if(names, [&](const std::string& name) { return !holds_images(folder / name); });
  return names;
}

bool holds_class_folders(const Path& folder) {
  const std::vector<std::string> names = sub_folders(folder);
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return holds_images(folder / name); });
}

constexpr const char* kSplitAdvice =
    "give data.train.path, data.validation.path and data.test.path, or, if these folders are "
    "classes, name them in data.classes";

// Throws for a folder without a training split if names still show that its folders are splits.
void reject_splits_without_train(const Path& folder, const std::vector<std::string>& names,
                                 const std::vector<std::string>& with_classes) {
  if (!with_classes.empty()) {
    throw DataError(folder.string(), "contains no folder of the training split (train), but ",
                    join_first(with_classes, 6),
                    " with a folder per class, named like other splits; ", kSplitAdvice);
  }
  std::set<Split> splits;
  for (const std::string& name : names) {
    if (find_split_name(to_lower(name)) != nullptr) splits.insert(*find_split_in_name(name));
  }
  if (splits.size() < 2 || !splits.contains(Split::kTrain)) return;
  throw DataError(folder.string(), "contains ", join_first(names, 6),
                  ", which are named like splits but contain no folder per class; put the "
                  "images of each class into a folder of its name, e.g. ",
                  (folder / "train" / "cats" / "1.jpg").string(),
                  ", list files and classes with data.format: csv, or, if these folders "
                  "are classes, name them in data.classes");
}

// Throws if two folders contain the same class folders. A folder with a single folder in it is a
// nested class, as no split has one class.
void reject_equal_contents(const Path& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;  // by the name of an inner folder, its outer folder
  for (const std::string& name : names) {
    std::vector<std::string> inner = folders_with_images(folder / name);
    // Links below the folder of a class are not followed.
    std::erase_if(inner,
                  [&](const std::string& each) { return fs::is_symlink(folder / name / each); });
    if (inner.size() < 2) continue;
    for (const std::string& each : inner) {
      const auto [other, is_new] = seen.try_emplace(to_lower(each), name);
      if (is_new || other->second == name) continue;
      throw DataError(folder.string(), "contains the folders ", other->second, " and ", name,
                      ", which both contain a folder ", each, "; which of them is which split? ",
                      kSplitAdvice);
    }
  }
}

}  // namespace

bool is_folder(const Path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  const std::optional<ZipPlace> place = find_zip_place(path);
  return place && has_folder(*place);
}

Path find_data_root(const Path& folder) {
  return find_zip_root(folder.string(), OnlyFolder::kKeepSplit);
}

std::vector<std::string> words_in(std::string_view name) {
  std::vector<std::string> words;
  char before = ' ';
  for (const char c : name) {
    const bool is_letter = is_upper(c) || is_lower(c) || static_cast<unsigned char>(c) >= 0x80;
    const bool follows_letter =
        is_upper(before) || is_lower(before) || static_cast<unsigned char>(before) >= 0x80;
    if (is_letter) {
      if (!follows_letter || (is_lower(before) && is_upper(c))) words.emplace_back();
      words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    }
    before = c;
  }
  return words;
}

std::optional<Split> find_split_in_name(std::string_view name) {
  std::optional<Split> split;
  for (const std::string& word : words_in(name)) {
    const SplitName* found = find_split_name(word);
    if (found == nullptr) continue;
    if (split && *split != found->split) return std::nullopt;
    split = found->split;
  }
  return split;
}

std::map<Split, std::string> choose_split_names(const std::string& source,
                                                const std::vector<std::string>& names) {
  std::map<Split, std::string> chosen;
  for (const std::string& name : names) {
    const std::optional<Split> split = find_split_in_name(name);
    if (!split) continue;
    const auto [other, is_new] = chosen.try_emplace(*split, name);
    if (is_new) continue;
    const std::size_t rank = rank_split_name(name), best = rank_split_name(other->second);
    if (rank == best) {
      throw DataError(source, "contains ", other->second, " and ", name, "; which of them is the ",
                      to_string(*split), " split? Give data.", to_string(*split), ".path");
    }
    if (rank < best) other->second = name;
  }
  return chosen;
}

SplitFolders find_split_folders(const Path& folder, const std::vector<std::string>& classes) {
  std::vector<std::string> names = sub_folders(folder);
  const std::set<std::string> class_names(classes.begin(), classes.end());
  std::erase_if(names, [&](const std::string& name) { return class_names.contains(name); });
  std::vector<std::string> candidates;
  for (const std::string& name : names) {
    if (find_split_in_name(name) && holds_class_folders(folder / name)) candidates.push_back(name);
  }
  const std::map<Split, std::string> chosen = choose_split_names(folder.string(), candidates);
  SplitFolders result;
  if (!chosen.contains(Split::kTrain)) {
    if (classes.empty()) reject_splits_without_train(folder, names, candidates);
    return result;
  }
  std::set<std::string> used;
  for (const auto& [split, name] : chosen) {
    result.paths[split] = folder / name;
    used.insert(name);
  }
  for (const std::string& name : names) {
    if (used.contains(name)) continue;
    if (holds_class_folders(folder / name)) {
      result.notes.push_back(concat((folder / name).string(),
                                    " contains a folder per class, but is not used: its name does "
                                    "not show which split it is; name it with data.train.path, "
                                    "data.validation.path or data.test.path to use it"));
    } else if (find_split_in_name(name) && holds_images(folder / name)) {
      result.notes.push_back(concat((folder / name).string(),
                                    " is not used: it contains images, but no folder per class"));
    }
  }
  return result;
}

std::vector<std::string> find_class_folders(const Path& folder) {
  std::vector<std::string> names = folders_with_images(folder);
  for (const std::string& name : names) {
    if (find_split_in_name(name) != Split::kTrain || !holds_class_folders(folder / name)) continue;
    throw DataError(folder.string(), "contains the folders ", join_first(names, 6), ", of which ",
                    name, " is the training split and contains the classes; give ",
                    (folder / name).string(), " as data.train.path, or ", folder.string(),
                    " as data.path");
  }
  for (const std::string& name : names) {
    for (const std::string& inner : sub_folders(folder / name)) {
      if (find_split_in_name(inner) != Split::kTrain) continue;
      if (!holds_class_folders(folder / name / inner)) continue;
      throw DataError(folder.string(), "contains ", name, ", in which ", inner,
                      " is a training split with a folder per class; give ",
                      (folder / name).string(), " as data.path");
    }
  }
  reject_equal_contents(folder, names);
  return names;
}

}  // namespace trainer::data
