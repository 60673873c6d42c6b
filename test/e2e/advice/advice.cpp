#include "advice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

namespace fs = std::filesystem;

// Divides a command line into words, which may be in single quotes.
Arguments split_words(const std::string& text) {
  Arguments words;
  bool is_quoted = false, is_word = false;
  for (const char letter : text) {
    if (letter == '\'') {
      is_quoted = !is_quoted;
    } else if (letter == ' ' && !is_quoted) {
      is_word = false;
      continue;
    }
    if (!std::exchange(is_word, true)) words.emplace_back();
    if (letter != '\'') words.back() += letter;
  }
  return words;
}

}  // namespace

const std::vector<AdvicePlace::File> AdvicePlace::kFiles{
    {"DIGITS", "digits.yaml"},
    {"PHOTOS", "photos.yaml"},
    {"LISTED", "listed.yaml"},  // trains on LIST
    {"IMAGES", "images"},       // a folder for each class
    {"LIST", "list.csv"},
    {"GAP", "gap.csv"},                    // with a line whose file does not exist
    {"ELSEWHERE", "lists/elsewhere.csv"},  // its paths count from IMAGES
    {"BESIDE", "lists/images"},
    {"RUN", "run"},
    {"OTHER", "other"},
    {"FOLDS", "folds"},
    {"FIX", "fix.csv"},  // does not exist, like the next ones
    {"ARCHIVE", "photos.zip"},
    {"FREE", "free"},
};

AdvicePlace::AdvicePlace() {
  constexpr const char* kTraining =
      "optimizer: {sgd: {learning_rate: 0.01}}\ntrain: {max_steps: 2, batch_size: 4}\n";
  write_images(work / "images", 6, 1);
  write_file_atomic(work / "digits.yaml",
                    concat("model: {layers: [flatten, dense: 10]}\ndata: {format: digits, path: ",
                           work.data(), ", limit: 64}\n", kTraining));
  const auto write_images_config = [&](const char* file, const std::string& data) {
    write_file_atomic(work / file,
                      concat("model: {input: [32, 32, 3], layers: [flatten, dense: 2]}\ndata: {",
                             data, ", resize: [32, 32]}\n", kTraining));
  };
  write_images_config("photos.yaml", "format: image_folder, path: " + (work / "images").string());
  write_images_config("listed.yaml",
                      concat("format: csv, train: {path: ", (work / "list.csv").string(), "}"));
  write_list(work / "list.csv", "images/");
  write_list(work / "gap.csv", "images/");
  std::ofstream(work / "gap.csv", std::ios::app) << "images/left/99.ppm,left\n";
  fs::create_directories(work / "lists");
  write_list(work / "lists/elsewhere.csv", "");
}

void AdvicePlace::write_list(const Path& list, const std::string& folder) {
  std::ofstream file(list);
  file << "path,label\n";
  for (const char* name : {"left", "right"}) {
    for (int i = 0; i < 6; ++i) file << folder << name << '/' << i << ".ppm," << name << '\n';
  }
}

std::string AdvicePlace::with_paths(const std::string& text) const {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto file = std::find_if(kFiles.begin(), kFiles.end(), [&](const File& one) {
      return text.compare(at, std::string_view(one.word).size(), one.word) == 0;
    });
    if (file == kFiles.end()) {
      result += text[at++];
    } else {
      result += (work / file->path).string();
      at += std::string_view(file->word).size();
    }
  }
  return result;
}

Result AdvicePlace::run(const std::string& command) const {
  const Path before = fs::current_path();
  fs::current_path(work / ".");
  const Result result =
      e2e::run(split_words(with_paths(command)), {{"HOME", work / "home"}, {"WEIGHTS_DIR", ""}});
  fs::current_path(before);
  return result;
}

void AdvicePlace::check_success(const std::string& command) const {
  const Result result = run(command);
  INFO(command);
  INFO(result.err);
  CHECK(result.code == 0);
}

void check_advice(const AdvicePlace& place, const Advice& advice) {
  INFO(std::string(advice.name));
  for (const std::string& command : advice.before) place.check_success(command);
  if (advice.prepare != nullptr) advice.prepare(place);
  const Result failed = place.run(advice.failed);
  INFO(failed.err);
  CHECK(failed.code != 0);
  CHECK(test::contains(failed.err, place.with_paths(advice.text)));
  std::string followed = advice.followed.empty() ? "+ " + advice.text : advice.followed;
  if (followed[0] == '+') followed = advice.failed + followed.substr(1);
  place.check_success(followed);
}

}  // namespace trainer::e2e
