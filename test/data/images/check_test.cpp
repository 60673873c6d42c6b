#include "data/check.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/canvas.h"
#include "commands/data/check_print.h"
#include "data/decode/image_file.h"
#include "data/images/image_files.h"
#include "data/open.h"
#include "data/samples/sampler.h"
#include "results/page/sheet.h"

namespace trainer::data::check_test {

using commands::to_json;
using commands::to_text;
using results::write_sheet;

TEST_CASE("check_images counts images, damaged files and files that two splits share") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "test", 1, 40);
  CHECK(check_images(build_config(folder.path()), 1, "").clean());
  write_text(folder.path() / "train/dog/bad.jpg", "\xFF\xD8");
  fs::copy_file(folder.path() / "train/cat/deep/cat1.ppm", folder.path() / "test/cat/cat1.ppm");
  const DataCheck check = check_images(build_config(folder.path()), 1, "(cat\\d+)\\.ppm");
  CHECK(!check.clean());
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[0].per_class == std::vector<std::int64_t>{3, 4});
  CHECK(check.splits[0].damaged.size() == 1);
  CHECK(check.splits[0].kinds.at("PNM") == 6);
  REQUIRE(check.duplicates.size() == 1);
  CHECK(check.duplicates[0].find("cat1.ppm (test)") != std::string::npos);
  REQUIRE(check.shared_groups.size() == 1);
  CHECK(check.shared_groups[0].find("'cat1'") == 0);
  const std::string text = to_text(check);
  CHECK(text.find("damaged files: 1") != std::string::npos);
  CHECK(text.find("  dog: 4") != std::string::npos);
}

TEST_CASE("check_images: the formats of each class are listed if a split has several") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  CHECK(to_text(check_images(build_config(folder.path()), 1, "")).find("  cat: 2\n") !=
        std::string::npos);
  const Bytes png = [&] {
    const fs::path path = folder.path() / "sheet.png";
    write_sheet(build_config(folder.path()), 1, 1, path.string());
    return read_file(path);
  }();
  write_text(folder.path() / "train/dog/placeholder.ppm", {png.begin(), png.end()});
  const DataCheck check = check_images(build_config(folder.path()), 1, "");
  const std::string text = to_text(check);
  CHECK(text.find("  cat: 2 (2 PNM)\n") != std::string::npos);
  CHECK(text.find("  dog: 3 (1 PNG, 2 PNM)\n") != std::string::npos);
  CHECK(to_json(check).find(R"("class_kinds":{"cat":{"PNM":2},"dog":{"PNG":1,"PNM":2}})") !=
        std::string::npos);
}

TEST_CASE(
    "check_images: patterns with exponential backtracking end at once, and wrong ones are errors") {
  const TemporaryFolder folder;
  // Each further letter doubles the time of a matcher that tries all divisions.
  const std::string name(120, 'x');
  write_folder(folder.path() / "train", 3);
  fs::copy_file(folder.path() / "train/cat/deep/cat1.ppm",
                folder.path() / "train/cat" / (name + ".ppm"));
  const config::Data config = build_config(folder.path());
  CHECK_THROWS_WITH_AS(check_images(config, 1, "(x+x+)+y"), doctest::Contains("matches none"),
                       ConfigError);
  const DataCheck check = check_images(config, 1, "(x+x+)+[.]");
  CHECK(check.grouped_files == 1);
  CHECK(check.groups == 1);
  CHECK(check_images(config, 1, "cat/.*[.]ppm").grouped_files >= 1);  // the whole match
  for (const char* wrong : {"(", "[", "a**", "(a)\\1", "(?=a)"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(check_images(config, 1, wrong), doctest::Contains("syntax of RE2"),
                         ConfigError);
  }
}

TEST_CASE("write_sheet writes a PNG of the expected size") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  const fs::path path = folder.path() / "sheet.png";
  write_sheet(build_config(folder.path()), 1, 5, path.string());
  const Bytes file = read_file(path);
  const ImageInfo info = ImageFile(file, path.string(), {}).info();
  CHECK(info.kind == ImageKind::kPng);
  // A cell is as wide as the longest name.
  const int name = std::max(Canvas::text_width("cat1.ppm"), Canvas::text_width("dog4.ppm"));
  CHECK(name > 6);
  CHECK(info.width == 3 * (name + 4) + 4);
  CHECK(info.height == 2 * (8 + 2 * 12 + 4) + 4);
}

TEST_CASE("draw_sheet orders shuffled images by class, with the names of class and file") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  const config::Data config = build_config(folder.path());
  const Datasets sets = open_datasets(config, 3, Split::kTrain);
  const Dataset& set = *sets.train;
  const Sampler order(set.size(), 3, true);
  std::vector<results::Tile> expected;
  std::vector<std::int32_t> labels;  // in the order of training
  for (const std::int32_t wanted : {0, 1}) {
    for (std::int64_t i = 0; i < 10; ++i) {
      results::Tile tile;
      tile.image.resize(set.spec().image_bytes());
      std::int32_t label = 0;
      set.get(order.index(0, i), 0, tile.image.data(), &label);
      if (wanted == 0) labels.push_back(label);
      tile.lines = {label == 0 ? "cat" : "dog",
                    fs::path(set.describe(order.index(0, i))).filename().string()};
      if (label == wanted) expected.push_back(std::move(tile));
    }
  }
  REQUIRE(expected.size() == 10);
  CHECK_FALSE(std::is_sorted(labels.begin(), labels.end()));
  const Bytes sheet = results::draw_sheet(set, sets.classes, config, 3, 10);
  CHECK(sheet == results::draw_tiles(set.spec().image_shape, expected));
  expected[0].lines[1] = "other.ppm";
  CHECK(sheet != results::draw_tiles(set.spec().image_shape, expected));
}

TEST_CASE("check_images counts the samples that training sets aside for validation_split") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 20);
  // Each image twice, in files of the group "cat7".
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "train")) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    fs::copy_file(file, file.parent_path() / concat(file.stem().string(), "_copy.ppm"));
  }
  write_text(folder.path() / "train/cat/broken.png", "not an image at all");
  config::Data config = build_config(folder.path());
  CHECK(check_images(config, 5, "").duplicates.empty());
  config.validation_split = 0.3;
  config.error_budget = 5;
  bool limited = false;
  SUBCASE("of all files") {}
  SUBCASE("of those without damage") { config.on_error = config::OnError::kSkip; }
  SUBCASE("of those that data.limit leaves") {
    config.limit = 50;
    limited = true;
  }
  const Datasets sets = open_datasets(config, 5);
  const auto groups = [](const Dataset& set) {
    std::map<std::string, std::string> result;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      const std::string stem = fs::path(set.describe(i)).stem().string();
      result[stem.substr(0, stem.find('_'))] = set.describe(i);
    }
    return result;
  };
  const auto train = groups(*sets.train), validation = groups(*sets.validation);
  std::size_t shared = 0;
  for (const auto& [group, file] : train) shared += validation.contains(group) ? 1 : 0;
  REQUIRE(shared > 1);

  const DataCheck check = check_images(config, 5, "/([a-z]+[0-9]+)[^/]*$");
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[1].split == Split::kValidation);
  const auto& counts = check.splits[1].per_class;
  CHECK(counts[0] + counts[1] == sets.validation->size());
  CHECK(check.duplicates.size() == shared);
  CHECK(check.shared_groups.size() == shared);
  CHECK(check.advice.find("data.validation: {path: ...}") != std::string::npos);
  CHECK(to_text(check).find(check.advice) != std::string::npos);
  CHECK(check.splits[0].notes.size() == (limited ? 1 : 0));
}

}  // namespace trainer::data::check_test
