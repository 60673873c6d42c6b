// predict --sheet: the page beside the predictions of the same images.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>

#include "base/error.h"
#include "pictures.h"
#include "support/contains.h"

namespace trainer::e2e::predict_sheet_test {
namespace {

namespace fs = std::filesystem;
using test::contains;

// A run on pictures of two classes; its validation split has 14 images.
struct Trained {
  Workspace work;
  Path run_folder = work / "run", sheet = work / "sheet.html";

  explicit Trained(const std::string& format, const std::string& train,
                   const std::string& validation) {
    const std::string config =
        work.config(concat(R"(
model: {input: [8, 8, 3], layers: [flatten, dense: 2]}
data: {format: )",
                           format, ", classes: [left, right], train: {path: ", train,
                           "}, validation: {path: ", validation, R"(}}
optimizer: {sgd: {learning_rate: 1.0e-4}}
train: {max_steps: 1, batch_size: 8}
run: {tensorboard: false}
)"));
    const Result result = run({"train", config, "--quiet", "--run-dir", run_folder});
    INFO(result.err);
    REQUIRE(result.code == 0);
  }

  Result predict(const Arguments& more) const {
    Arguments arguments{"predict", run_folder, "--json", "--sheet", sheet};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

struct Images {
  TemporaryFolder folder;
  Path train = folder.path() / "train", validation = folder.path() / "validation";
  Images() {
    write_images(train, 9, 1);
    write_images(validation, 7, 2);
  }
};

// What a tile of the page has.
struct Tile {
  std::string section, predicted, probability, label, name;
  bool is_wrong = false;
};

std::vector<Tile> read_tiles(const std::string& page) {
  const std::regex pattern(
      "<h2>([^<]*)</h2>|<li( class=\"wrong\")?><img src=\"data:image/png;base64,[^\"]+\" [^>]*/>"
      "<span><b>([^<]*)</b> ([0-9.]+)<br/>(?:(?:wrong, )?true: <b>([^<]*)</b><br/>)?<small "
      "title=\"([^\"]*)\">");
  std::vector<Tile> tiles;
  std::string section;
  for (std::sregex_iterator found(page.begin(), page.end(), pattern), end; found != end; ++found) {
    const std::smatch& match = *found;
    if (match[1].matched) {
      section = match[1];
      continue;
    }
    tiles.push_back({section, match[3], match[4], match[5], match[6], match[2].matched});
  }
  return tiles;
}

// Checks each tile against the prediction of the same file, and the order of the tiles.
void check_tiles(const std::vector<Tile>& tiles, const std::vector<Json>& predictions) {
  std::map<std::string, Json> by_file;
  std::map<std::string, int> counts;
  for (const Json& one : predictions) {
    by_file[one.at("file")] = one;
    ++counts[one.at("class")];
  }
  double last = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Tile& tile = tiles[i];
    CAPTURE(tile.name);
    REQUIRE(by_file.contains(tile.name));
    const Json& one = by_file[tile.name];
    CHECK(tile.predicted == one.at("class"));
    CHECK(tile.section == concat(tile.predicted, " (", counts[tile.predicted], ")"));
    const double probability = one.at("probability").get<double>();
    CHECK(std::stod(tile.probability) == doctest::Approx(probability).epsilon(1e-3));
    CHECK(tile.label == (one.contains("label") ? one.at("label").get<std::string>() : ""));
    CHECK(tile.is_wrong == (one.contains("label") && one.at("label") != one.at("class")));
    const bool is_first = i == 0 || tiles[i - 1].section != tile.section;
    CHECK((is_first || probability >= last));
    last = probability;
  }
}

}  // namespace

TEST_CASE("predict --sheet shows the predictions of a split by class with true classes") {
  const Images images;
  const Trained trained("image_folder", images.train, images.validation);
  const Result result = trained.predict({});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(
      contains(result.err, concat("note: wrote ", trained.sheet.string(), ": 14 of 14 images\n")));
  const std::vector<Json> predictions = result.lines();
  REQUIRE(predictions.size() == 14);
  const std::string page = read_text_file(trained.sheet);
  const std::vector<Tile> tiles = read_tiles(page);
  CHECK(tiles.size() == 14);
  check_tiles(tiles, predictions);
  const auto right = std::count_if(predictions.begin(), predictions.end(), [](const Json& one) {
    return one.at("class") == one.at("label");
  });
  CHECK(contains(page, concat("% right (", right, " of 14)")));
  CHECK(std::count_if(tiles.begin(), tiles.end(), [](const Tile& one) { return one.is_wrong; }) ==
        14 - right);

  // Evenly spaced, so that both folders are there; --limit comes first.
  const Result some = trained.predict({"--samples", "4", "--overwrite"});
  CHECK(contains(some.err, "4 of 14 images"));
  std::vector<std::string> names;
  for (const Tile& tile : read_tiles(read_text_file(trained.sheet))) names.push_back(tile.name);
  std::sort(names.begin(), names.end());
  std::vector<std::string> expected;
  for (const std::size_t index : {3, 6, 10, 13}) {
    expected.push_back(predictions[index].at("file").get<std::string>());
  }
  CHECK(names == expected);
  CHECK(contains(read_text_file(trained.sheet), "4 of 14 images, evenly spaced; "));
  CHECK(contains(trained.predict({"--limit", "3", "--overwrite"}).err, "3 of 3 images"));
}

TEST_CASE("predict --sheet shows a folder of photos without labels, one of them damaged") {
  const Images images;
  const Trained trained("image_folder", images.train, images.validation);
  std::ofstream(images.validation / "left" / "0.ppm") << "P6 40 40 255 cut";
  const Result result = trained.predict({images.validation.string()});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "13 of 13 images"));
  const std::string page = read_text_file(trained.sheet);
  const std::vector<Tile> tiles = read_tiles(page);
  CHECK(tiles.size() == 13);
  check_tiles(tiles, result.lines());
  CHECK_FALSE(contains(page, " % right"));
  CHECK_FALSE(contains(page, "true: "));
}

TEST_CASE("predict --sheet accepts lists and zip archives") {
  const Images images;
  std::string format, train, validation;
  SUBCASE("a list") {
    for (const Path& folder : {images.train, images.validation}) {
      std::ofstream list(folder.string() + ".csv");
      list << "path,label\n";
      for (const char* name : {"left", "right"}) {
        for (int i = 0; i < 7; ++i) {
          list << folder.filename().string() << '/' << name << '/' << i << ".ppm," << name << '\n';
        }
      }
    }
    format = "csv, csv: {root: " + images.folder.path().string() + "}";
    train = images.train.string() + ".csv";
    validation = images.validation.string() + ".csv";
  }
  SUBCASE("zip archives") {
    const std::string command =
        "cd '" + images.folder.path().string() +
        "' && for part in train validation; do python3 -m zipfile -c $part.zip $part/left "
        "$part/right || exit 1; done";
    REQUIRE(std::system(command.c_str()) == 0);
    format = "image_folder";
    train = images.train.string() + ".zip";
    validation = images.validation.string() + ".zip";
  }
  const Trained trained(format, train, validation);
  const Result result = trained.predict({});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const std::vector<Tile> tiles = read_tiles(read_text_file(trained.sheet));
  CHECK(tiles.size() == 14);
  check_tiles(tiles, result.lines());
}

TEST_CASE("predict --sheet shows several runs, and images for which the model abstains") {
  const Images images;
  const Trained trained("image_folder", images.train, images.validation);
  SUBCASE("an ensemble") {
    const Result result = trained.predict({"--ensemble", trained.run_folder});
    INFO(result.err);
    REQUIRE(result.code == 0);
    const std::vector<Tile> tiles = read_tiles(read_text_file(trained.sheet));
    CHECK(tiles.size() == 14);
    check_tiles(tiles, result.lines());
  }
  SUBCASE("abstentions") {
    const Result result = trained.predict({"--abstain", "0.01"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    const std::vector<Json> lines = result.lines();
    const auto abstained = std::count_if(lines.begin(), lines.end(), [](const Json& one) {
      return one.at("abstained").get<bool>();
    });
    REQUIRE(abstained > 0);
    const std::string page = read_text_file(trained.sheet);
    CHECK(contains(page, concat("<h2>No class (the model abstains) (", abstained, ")</h2>")));
    CHECK(contains(page, "abstains; likeliest <b>"));
  }
}

TEST_CASE("predict --sheet: wrong uses are errors, and a file that exists stays") {
  const Images images;
  const Trained trained("image_folder", images.train, images.validation);
  const auto refused = [&](Arguments more) {
    more.insert(more.begin(), {"predict", trained.run_folder});
    const Result result = run(more);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(
      contains(refused({"--sheet", trained.work / "sheet.png"}), "give a name that ends in .html"));
  CHECK(contains(refused({"--samples", "3"}), "--sheet"));
  CHECK(contains(refused({"--sheet", trained.sheet, "--features", trained.work / "f.npy"}),
                 "--features"));
  std::ofstream(trained.sheet) << "precious";
  CHECK(contains(refused({"--sheet", trained.sheet}), "exists; replace it with --overwrite"));
  CHECK(read_text_file(trained.sheet) == "precious");
}

}  // namespace trainer::e2e::predict_sheet_test
