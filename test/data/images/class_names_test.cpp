#include "data/class_names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "data/check.h"
#include "data/images/image_files.h"
#include "data/open.h"

namespace trainer::data::class_names_test {
namespace {

const std::string kComposed = "Caf\xC3\xA9", kDecomposed = "Cafe\xCC\x81";

using Lines = std::vector<std::string>;

// The warnings of training and the notes of `trainer data` that contain "differ only by".
Lines find_warnings(const config::Data& config) {
  Lines warnings = open_datasets(config, 1).train_files->damage().left_aside;
  const auto is_other = [](const std::string& line) {
    return line.find("differ only by") == std::string::npos;
  };
  std::erase_if(warnings, is_other);
  Lines notes = check_images(config, 1, "").splits[0].notes;
  std::erase_if(notes, is_other);
  CHECK(notes == warnings);
  return warnings;
}

// A member of a tar file: its header and its content in blocks of 512 bytes.
std::string make_tar_member(const std::string& name, const std::string& content) {
  std::string block(512, '\0');
  char octal[16];
  block.replace(0, name.size(), name);
  std::snprintf(octal, sizeof octal, "%011zo", content.size());
  block.replace(124, 11, octal);
  block[156] = '0';
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  block.replace(148, 7, octal, 7);
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}

}  // namespace

TEST_CASE("list_classes names all of up to 20 classes, or the number of the others") {
  Lines classes{"a", "b"};
  CHECK(list_classes(classes) == "a, b");
  CHECK(list_classes({}) == "");
  classes.resize(20, "c");
  CHECK(list_classes(classes).ends_with(", c"));
  classes.insert(classes.end(), {"last", "but one"});
  CHECK(list_classes(classes).ends_with(", c and 2 more"));
}

TEST_CASE("describe_similar_names finds only names that differ by blanks, case or Unicode form") {
  CHECK(describe_similar_names({"cat", "dog", "cats", "c-at", "c_at", "kat"}).empty());
  CHECK(describe_similar_names({"1", "01", "1.0", "\xC2\xB2", "2"}).empty());
  CHECK(describe_similar_names({}).empty());
  const auto one = [](const Lines& classes) {
    const Lines lines = describe_similar_names(classes);
    REQUIRE(lines.size() == 1);
    constexpr std::string_view kStart = "the classes ",
                               kEnd = "; if they are one class, give them one name";
    REQUIRE(lines[0].starts_with(kStart));
    REQUIRE(lines[0].ends_with(kEnd));
    return lines[0].substr(kStart.size(), lines[0].size() - kStart.size() - kEnd.size());
  };
  CHECK(one({"Cat", "dog", "cat"}) == "'Cat', 'cat' differ only by case");
  CHECK(one({"cat", "cat "}) == "'cat', 'cat ' differ only by blanks");
  CHECK(one({"hot dog", "hotdog", "hot  dog"}) ==
        "'hot dog', 'hotdog', 'hot  dog' differ only by blanks");
  CHECK(one({"Cat", "cat", "cat "}) == "'Cat', 'cat', 'cat ' differ only by blanks and case");
  CHECK(one({kComposed, kDecomposed}) == concat("'", kComposed, R"(' (Caf\xc3\xa9), ')",
                                                kDecomposed,
                                                R"(' (Cafe\xcc\x81) differ only by Unicode form)"));
  // A no-break space, a zero width space, and a capital letter of another alphabet in NFD.
  CHECK(one({"a b",
             "a\xC2\xA0"
             "b"})
            .ends_with("differ only by blanks"));
  CHECK(one({"ab",
             "a\xE2\x80\x8B"
             "b"})
            .ends_with("differ only by blanks"));
  CHECK(one({"\xD0\xB9", "\xD0\x98\xCC\x86"}).ends_with("differ only by case and Unicode form"));
  // The letter A with a ring, and the sign of the unit angstrom.
  CHECK(one({"\xC3\x85", "\xE2\x84\xAB"}).ends_with("differ only by Unicode form"));
  CHECK(one({"stra\xC3\x9F"
             "e",
             "STRASSE"})
            .ends_with("differ only by case"));
  CHECK(describe_similar_names({"a", "b", "B", "A"}).size() == 2);
}

TEST_CASE("class names: a warning names similar names in any format") {
  const TemporaryFolder folder;
  SUBCASE("folders") {
    for (const char* name : {"Cat", "cat", "dog"}) {
      write_image(folder.path() / name / "1.ppm", 9, 9, 1);
    }
    CHECK(find_warnings(build_config(folder.path())) ==
          Lines{concat(folder.path().string(),
                       ": the classes 'Cat', 'cat' differ only by case; if they are one class, "
                       "give them one name")});
  }
  SUBCASE("folders of a glob") {
    for (const char* name : {"cat", "cat "}) {
      write_image(folder.path() / name / "1.ppm", 9, 9, 1);
    }
    config::Data config = build_config("");
    config.train.glob = (folder.path() / "*/*.ppm").string();
    const Lines warnings = find_warnings(config);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("the classes 'cat', 'cat ' differ only by blanks") != std::string::npos);
  }
  SUBCASE("csv, also where data.classes names the classes") {
    config::Data config = build_config("");
    config.format = config::DataFormat::kCsv;
    config.train.path = folder.path() / "train.csv";
    std::string text = "path,label\n";
    int number = 0;
    for (const char* label : {"Cat", "cat", "\"cat \"", "dog"}) {
      const std::string name = concat(number, ".ppm");
      write_image(folder.path() / name, 9, 9, ++number);
      text += concat(name, ',', label, '\n');
    }
    write_text(config.train.path, text);
    const Lines expected{concat(config.train.path,
                                ": the classes 'Cat', 'cat', 'cat ' differ only by blanks and "
                                "case; if they are one class, give them one name")};
    CHECK(find_warnings(config) == expected);
    config.classes = {"Cat", "cat", "cat ", "dog"};
    CHECK(find_warnings(config) == expected);
  }
  SUBCASE("tar shards") {
    const std::string image = "P5 1 1 255\n\x80";
    write_text(folder.path() / "0.tar",
               make_tar_member("0.pgm", image) + make_tar_member("0.cls", kComposed) +
                   make_tar_member("1.pgm", image) + make_tar_member("1.cls", kDecomposed));
    config::Data config = build_config("");
    config.format = config::DataFormat::kWebDataset;
    config.train.path = folder.path() / "0.tar";
    const Lines warnings = find_warnings(config);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find(R"((Cafe\xcc\x81), )") != std::string::npos);
    CHECK(warnings[0].find("differ only by Unicode form") != std::string::npos);
  }
}

TEST_CASE("class names: a name in another Unicode form is the same class") {
  const TemporaryFolder folder;
  for (const std::string& name : {kComposed, std::string("Tee")}) {
    write_image(folder.path() / "train" / name / "1.ppm", 9, 9, 1);
  }
  write_image(folder.path() / "test" / kDecomposed / "1.ppm", 9, 9, 2);
  write_image(folder.path() / "test" / "Tee" / "1.ppm", 9, 9, 3);
  config::Data config = build_config(folder.path());
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.classes == Lines{kComposed, "Tee"});
  CHECK(labels(*sets.test) == std::vector<std::int32_t>{0, 1});
  CHECK(sets.test_files->damage().left_aside.empty());
  config.test.glob = (folder.path() / "test/*/*.ppm").string();
  CHECK(labels(*open_datasets(config, 1).test) == std::vector<std::int32_t>{0, 1});

  config::Data csv = build_config("");
  csv.format = config::DataFormat::kCsv;
  csv.train.path = folder.path() / "list.csv";
  csv.classes = {kDecomposed, "Tee"};
  csv.csv.root = (folder.path() / "test").string();
  write_text(csv.train.path,
             concat("path,label\n", kDecomposed, "/1.ppm,", kComposed, "\nTee/1.ppm,Tee\n"));
  CHECK(labels(*open_datasets(csv, 1).train) == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("class names: the error of an unknown class names a similar class") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 1);
  write_image(folder.path() / "test" / "Cat" / "1.ppm", 9, 9, 2);
  config::Data config = build_config(folder.path());
  CHECK(find_open_error(config).find(
            "Cat: is not a class: the classes are cat, dog; it differs from "
            "the class 'cat' only by case; name it in data.classes") != std::string::npos);
  config.test.glob = (folder.path() / "test/*/*.ppm").string();
  CHECK(find_open_error(config).ends_with(
      "its folder 'Cat' is not a class; the classes are cat, dog; it differs from the class 'cat' "
      "only by case"));
  config.format = config::DataFormat::kCsv;
  config.path = "";
  config.classes = {"cat", "dog"};
  config.test = {};
  config.train.path = folder.path() / "list.csv";
  write_text(config.train.path, "path,label\ntest/Cat/1.ppm,\"dog \"\n");
  CHECK(find_open_error(config).ends_with("it differs from the class 'dog' only by blanks"));
}

}  // namespace trainer::data::class_names_test
