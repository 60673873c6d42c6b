// The settings by which `new` reads a list of images.
#include <doctest/doctest.h>

#include "base/error.h"
#include "commands/new/image_config.h"
#include "support/contains.h"

namespace trainer::commands::csv_settings_test {
namespace {

using test::contains;

config::Override setting(const std::string& key, const std::string& value) {
  return {key, value, "--set", config::Override::Syntax::kYaml};
}

std::string catch_error(const std::vector<config::Override>& settings) {
  try {
    read_csv_settings(settings, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("is_of_csv is true for data.csv and its keys, and for no other key") {
  CHECK(is_of_csv(setting("data.csv", "")));
  CHECK(is_of_csv(setting("data.csv.root", "")));
  CHECK(!is_of_csv(setting("data.csvs", "")));
  CHECK(!is_of_csv(setting("data", "")));
}

TEST_CASE("read_csv_settings reads keys and the whole map, without the settings of other keys") {
  const config::Csv by_key =
      read_csv_settings({setting("data.csv.image_column", "image"), setting("train.epochs", "9"),
                         setting("no.such.key", "1"), setting("data.csv.separator", "';'")},
                        {});
  CHECK(by_key.image_column == "image");
  CHECK(by_key.separator == ";");
  const config::Csv map = read_csv_settings({setting("data.csv", "{image_column: image}")}, {});
  CHECK(map.image_column == "image");
  CHECK(read_csv_settings({}, {}).image_column.empty());
}

TEST_CASE("read_csv_settings replaces a variable by that of the environment") {
  CHECK(read_csv_settings({setting("data.csv.image_column", "${COLUMN}")}, {{"COLUMN", "file"}})
            .image_column == "file");
}

TEST_CASE("read_csv_settings: the error of an unknown key names it") {
  CHECK(contains(catch_error({setting("data.csv.rot", "image")}), "data.csv.rot"));
}

TEST_CASE("read_csv_settings: several labels per image are an error") {
  for (const auto& several : {setting("data.csv.label_separator", "'|'"),
                              setting("data.csv", "{label_separator: '|'}")}) {
    CAPTURE(several.path);
    CHECK(contains(catch_error({several}), "writes configs of one class per image"));
  }
}

}  // namespace
}  // namespace trainer::commands::csv_settings_test
