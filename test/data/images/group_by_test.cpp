#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/common_data.h"
#include "data/images/image_files.h"
#include "data/images/listing/group_pattern.h"
#include "data/images/listing/group_proposal.h"
#include "data/samples/groups.h"
#include "data/samples/splits.h"
#include "support/contains.h"
#include "support/skip.h"

namespace trainer::data::group_by_test {
namespace {

using commands::to_json;
using commands::to_text;
using test::contains;

// Writes `persons` persons of one to four images each, half of them of each class.
void write_persons(const fs::path& folder, int persons, int seed = 0) {
  Random random(static_cast<std::uint64_t>(seed), Stream::kSynthetic);
  for (int person = 1; person <= persons; ++person) {
    const auto images = static_cast<int>(1 + random.below(4));
    for (int i = 0; i < images; ++i) {
      write_image(folder / (person % 2 == 0 ? "ill" : "well") /
                      concat("person", seed * 1000 + person, "_scan_", i, ".ppm"),
                  5, 5, seed * 10000 + person * 10 + i);
    }
  }
}

std::set<std::string> find_persons(const Dataset& set) {
  std::set<std::string> persons;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const std::string name = fs::path(set.describe(i)).filename().string();
    persons.insert(name.substr(0, name.find('_')));
  }
  return persons;
}

std::vector<std::string> shared(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

struct Folder {
  TemporaryFolder files;
  config::Data config = build_config(files.path());
  Folder() {
    config.validation_split = 0.3;
    config.group_by = "(person\\d+)_";
  }
};

}  // namespace

TEST_CASE("group_by: validation_split keeps groups whole, in every process alike") {
  const Folder folder;
  write_persons(folder.files.path() / "train", 30);
  config::Data plain = folder.config;
  plain.group_by.clear();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Datasets sets = open_datasets(folder.config, seed);
    CHECK(shared(find_persons(*sets.train), find_persons(*sets.validation)).empty());
    // What the ranks of a job compare at their start, and the splits that are opened alone.
    CHECK(common_data(sets, true) == common_data(open_datasets(folder.config, seed), true));
    const Datasets alone = open_datasets(folder.config, seed, Split::kValidation);
    CHECK(alone.validation->common_content() == sets.validation->common_content());
    CHECK(same_division(sets.train->fingerprint(), sets.validation->fingerprint()));
    CHECK(!same_division(open_datasets(plain, seed).train->fingerprint(),
                         sets.validation->fingerprint()));
  }
  const Datasets without = open_datasets(plain, 1);
  CHECK(!shared(find_persons(*without.train), find_persons(*without.validation)).empty());
  CHECK(without.notices.empty());
}

TEST_CASE("group_by: training reports the groups, and the shares asked for and reached") {
  const Folder folder;
  write_persons(folder.files.path() / "train", 30);
  write_image(folder.files.path() / "train/well/scan.ppm", 5, 5, 1);
  const Datasets sets = open_datasets(folder.config, 1);
  REQUIRE(sets.notices.size() == 1);
  const Notice& notice = sets.notices[0];
  CHECK(notice.kind == Notice::Kind::kNote);
  INFO(notice.text);
  CHECK(contains(notice.text, " files in 30 groups, and 1 file that is a group of its own; "));
  CHECK(contains(notice.text, "data.validation_split: 0.3 sets "));
  CHECK(contains(notice.text, "(30.00 % asked for), by class ill "));
  const DataCheck check = check_images(folder.config, 1, "");
  CHECK(check.clean());
  CHECK(check.groups == 30);
  CHECK(check.ungrouped_files == 1);
  REQUIRE(check.splits.size() == 2);
  REQUIRE(check.splits[1].notes.size() == 2);
  CHECK(contains(notice.text, check.splits[1].notes[1]));
  const std::string text = to_text(check);
  CHECK(contains(text, " files in 30 groups; 1 files are in none, each a group of its own\n"));
  CHECK(contains(to_json(check), "\"group_source\":\"data.group_by\""));
  CHECK(contains(to_json(check), "\"ungrouped_files\":1"));
}

TEST_CASE("group_by: groups in the folders of two splits are a leak and give a warning") {
  const Folder folder;
  write_persons(folder.files.path() / "train", 10);
  write_persons(folder.files.path() / "test", 4, 5);
  CHECK(check_images(folder.config, 1, "").clean());
  CHECK(open_datasets(folder.config, 1).notices.size() == 1);
  write_image(folder.files.path() / "test/ill/person2_other.ppm", 5, 5, 12345);
  const Datasets sets = open_datasets(folder.config, 1);
  const DataCheck check = check_images(folder.config, 1, "");
  // Person 2 is in the training part or in the validation part of the training samples.
  const bool is_trained = find_persons(*sets.train).contains("person2");
  REQUIRE(sets.notices.size() == 2);
  CHECK(sets.notices[1].kind == Notice::Kind::kWarning);
  CHECK(contains(sets.notices[1].text,
                 "1 group is in the train split and in the test split, e.g. person2"));
  REQUIRE(check.shared_groups.size() == 1);
  CHECK(contains(check.shared_groups[0],
                 is_trained ? "'person2': train (" : "'person2': validation ("));
  CHECK(contains(check.shared_groups[0], " test ("));
  CHECK(!check.clean());
}

TEST_CASE("group_by: damaged files that training skips are in no split") {
  Folder folder;
  folder.config.on_error = config::OnError::kSkip;
  folder.config.error_budget = 0.5;
  write_persons(folder.files.path() / "train", 20);
  for (int person = 1; person <= 20; ++person) {
    write_text(folder.files.path() / "train" / (person % 2 == 0 ? "ill" : "well") /
                   concat("person", person, "_broken.ppm"),
               "P6");
  }
  CHECK(check_images(folder.config, 1, "").shared_groups.empty());
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(shared(find_persons(*sets.train), find_persons(*sets.validation)).empty());
}

TEST_CASE("group_by: patterns that match nothing, match alike or are wrong are an error") {
  Folder folder;
  write_persons(folder.files.path() / "train", 6);
  const auto check_both = [&](const std::string& pattern, const std::string& message) {
    CAPTURE(pattern);
    folder.config.group_by = pattern;
    CHECK(contains(find_open_error(folder.config), message));
    CHECK_THROWS_WITH_AS(check_images(folder.config, 1, ""), doctest::Contains(message.c_str()),
                         ConfigError);
    CHECK_THROWS_WITH_AS(describe_training_groups(folder.config),
                         doctest::Contains(message.c_str()), ConfigError);
  };
  check_both("patient\\d+", "data.group_by: 'patient\\d+' matches none of the paths of the ");
  check_both("(person)\\d", "training files into the group 'person'");
  check_both("(", "data.group_by '('");
  folder.config.group_by = "person\\d+";  // the whole match
  CHECK(contains(describe_training_groups(folder.config), " files in 6 groups"));
}

TEST_CASE(
    "GroupPattern finds in linear time that repeats within repeats do not match a long path") {
  const GroupPattern pattern("--group-by", "(x+x+)+y");
  CHECK(pattern.find(std::string(1 << 20, 'x')) == "");
  CHECK(pattern.find(std::string(1 << 20, 'x') + "y") == std::string(1 << 20, 'x'));
}

TEST_CASE("group_by: a column of a csv list gives the groups") {
  Folder folder;
  std::string text = "file,class,patient\n";
  Random random(6, Stream::kSynthetic);
  std::map<std::string, std::string> patient_of;
  for (int i = 0; i < 60; ++i) {
    const std::string name = concat("scan", i, ".ppm");
    write_image(folder.files.path() / name, 5, 5, i);
    const std::string patient = i == 7 ? "" : concat("p", random.below(20));
    patient_of[name] = patient;
    text += concat(name, ',', i % 2 == 0 ? "ill" : "well", ',', patient, '\n');
  }
  write_text(folder.files.path() / "list.csv", text);
  folder.config.format = config::DataFormat::kCsv;
  folder.config.path.clear();
  folder.config.train.path = (folder.files.path() / "list.csv").string();
  folder.config.group_by = "patient";
  const Datasets sets = open_datasets(folder.config, 1);
  const auto patients = [&](const Dataset& set) {
    std::set<std::string> found;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      const std::string group = set.group_at(i);
      CHECK(group == patient_of[fs::path(set.describe(i)).filename().string()]);
      if (!group.empty()) found.insert(group);
    }
    return found;
  };
  CHECK(shared(patients(*sets.train), patients(*sets.validation)).empty());
  CHECK(sets.train->size() + sets.validation->size() == 60);
  CHECK(contains(sets.notices.at(0).text, "and 1 file that is a group of its own"));
  CHECK(check_images(folder.config, 1, "").clean());

  folder.config.group_by = "person";
  CHECK(contains(find_open_error(folder.config),
                 "there is no column 'person', which data.group_by names; the columns are file, "
                 "class, patient"));
  folder.config.group_by = "scan(\\d)";  // a pattern on paths
  CHECK(open_datasets(folder.config, 1).train->group_at(0).size() == 1);
  write_text(folder.files.path() / "list.csv", "file,class,patient\nscan1.ppm,a,\nscan2.ppm,b,\n");
  folder.config.group_by = "patient";
  CHECK(contains(find_open_error(folder.config), "that is empty in every line"));
}

TEST_CASE("group_by: lists without the column are a note, but for the training list an error") {
  Folder folder;
  for (int i = 0; i < 12; ++i) write_image(folder.files.path() / concat(i, ".ppm"), 5, 5, i);
  const auto write = [&](const std::string& name, const std::string& header, int first) {
    std::string text = header + "\n";
    for (int i = first; i < first + 4; ++i) {
      text += concat(i, ".ppm,", i % 2 == 0 ? "ill" : "well", header == "file,class" ? "" : ",p",
                     header == "file,class" ? "" : std::to_string(i), '\n');
    }
    write_text(folder.files.path() / name, text);
    return (folder.files.path() / name).string();
  };
  folder.config.format = config::DataFormat::kCsv;
  folder.config.path.clear();
  folder.config.validation_split = 0;
  folder.config.group_by = "patient";
  folder.config.train.path = write("train.csv", "file,class,patient", 0);
  folder.config.validation.path = write("validation.csv", "file,class", 4);
  folder.config.test.path = write("test.csv", "file,class,patient", 8);
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(sets.train->group_at(1) == "p1");
  CHECK(sets.validation->size() == 4);
  CHECK(sets.validation->group_at(1).empty());
  CHECK(sets.test->group_at(1) == "p9");
  const DataCheck check = check_images(folder.config, 1, "");
  CHECK(check.clean());
  CHECK(check.groups == 8);
  REQUIRE(check.splits.size() == 3);
  REQUIRE(check.splits[1].notes.size() == 1);
  CHECK(check.splits[1].notes[0] ==
        folder.config.validation.path +
            ":1: there is no column 'patient', which data.group_by names; the columns are file, "
            "class; groups that are also in another split cannot be found");
  CHECK(check.splits[2].notes.empty());
  folder.config.train.path = write("train.csv", "file,class", 0);
  const char* const message =
      "train.csv:1: there is no column 'patient', which data.group_by names; the columns are file, "
      "class. A regular expression on paths needs parentheses";
  CHECK(contains(find_open_error(folder.config), message));
  CHECK_THROWS_WITH_AS(check_images(folder.config, 1, ""), doctest::Contains(message), ConfigError);
  CHECK_THROWS_WITH_AS(describe_training_groups(folder.config), doctest::Contains(message),
                       ConfigError);
}

TEST_CASE("group_by: a column of numbers beside one-hot columns is not a class") {
  Folder folder;
  std::string text = "image,cat,dog,first\n";
  for (int i = 0; i < 8; ++i) {
    write_image(folder.files.path() / concat(i, ".ppm"), 5, 5, i);
    text += concat(i, ".ppm,", i % 2, ',', 1 - i % 2, ',', i < 4 ? 1 : 0, '\n');
  }
  write_text(folder.files.path() / "list.csv", text);
  folder.config.format = config::DataFormat::kCsv;
  folder.config.path.clear();
  folder.config.train.path = (folder.files.path() / "list.csv").string();
  folder.config.group_by = "first";
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(sets.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(sets.train->size() == 4);
  CHECK(sets.validation->size() == 4);
}

TEST_CASE("fold validates in place of every other validation split") {
  Folder folder;
  write_persons(folder.files.path() / "train", 24);
  write_persons(folder.files.path() / "val", 6, 3);
  folder.config.folds = 3;
  std::set<std::string> all;
  std::int64_t samples = 0;
  for (std::int64_t fold = 1; fold <= 3; ++fold) {
    folder.config.fold = fold;
    const Datasets sets = open_datasets(folder.config, 1);
    const std::set<std::string> validation = find_persons(*sets.validation);
    CHECK(shared(find_persons(*sets.train), validation).empty());
    CHECK(shared(all, validation).empty());
    all.insert(validation.begin(), validation.end());
    samples += sets.validation->size();
    CHECK(same_division(sets.train->fingerprint(), sets.validation->fingerprint()));
    const DataCheck check = check_images(folder.config, 1, "");
    REQUIRE(check.splits.size() == 2);
    CHECK(check.splits[1].per_class[0] + check.splits[1].per_class[1] == sets.validation->size());
    CHECK(contains(check.splits[1].notes[0], concat("fold ", fold, " of 3 with seed 1")));
    CHECK(contains(check.splits[1].notes[1], "(33.33 % asked for)"));
  }
  CHECK(all.size() == 24);
  folder.config.fold.reset();
  folder.config.validation_split = 0;
  CHECK(samples == open_datasets(folder.config, 1, Split::kTrain).train->size());
}

TEST_CASE("check_images: advice for a fold names the fold and no key that a fold overrides") {
  Folder folder;
  folder.config.validation_split = 0;
  folder.config.group_by.clear();
  folder.config.folds = 3;
  folder.config.fold = 2;
  write_persons(folder.files.path() / "train", 24);
  const DataCheck check = check_images(folder.config, 1, "(person\\d+)_");
  REQUIRE(!check.shared_groups.empty());
  CHECK(check.advice ==
        "fold 2 of 3 divides the files one by one, without regard to groups and copies. To keep "
        "groups together, give data.group_by, a pattern as for --group-by");
  // The groups stay together, but a copy of a file has another group.
  folder.config.group_by = "(person\\d+|copy\\d+)_";
  for (int i = 0; i < 24; ++i) {
    fs::copy_file(folder.files.path() / "train/well/person1_scan_0.ppm",
                  folder.files.path() / "train/well" / concat("copy", i, "_.ppm"));
  }
  const DataCheck copies = check_images(folder.config, 1, "");
  CHECK(copies.shared_groups.empty());
  CHECK(copies.advice ==
        "fold 2 of 3 keeps the groups of data.group_by together, but not these files: give a "
        "pattern that puts them into one group, and remove copies");
  folder.config.fold.reset();
  folder.config.validation_split = 0.3;
  CHECK(contains(check_images(folder.config, 1, "").advice,
                 "data.validation_split: 0.3 keeps the groups of data.group_by together, but not "
                 "these files: "));
  CHECK(contains(check_images(folder.config, 1, "").advice, "data.validation: {path: ...}"));
}

TEST_CASE("propose_groups finds the pattern of names that several files share") {
  const auto propose = [](std::vector<std::string> paths) { return propose_groups(paths).pattern; };
  CHECK(propose({"a/person1_virus_1.jpeg", "a/person1_virus_2.jpeg", "b/person22_bacteria_3.jpeg",
                 "b/person22_bacteria_4.jpeg", "b/person3_x.jpeg"}) == "(person\\d+)");
  CHECK(propose({"x/10_left.jpeg", "x/10_right.jpeg", "y/13_left.jpeg", "y/13_right.jpeg",
                 "y/15_left.jpeg"}) == "/(\\d+)[_. -][^/]*$");
  // The name of a folder has the form of a group, so that the pattern begins at the file name.
  CHECK(propose({"p7/p1_1.png", "p7/p1_2.png", "p7/p2_1.png", "p7/p2_2.png", "p7/p3_1.png"}) ==
        "/(p\\d+)[_. -][^/]*$");
  CHECK(propose({"IM-0001-0001.png", "IM-0001-0002.png", "NORMAL2-IM-0002-0001.png",
                 "NORMAL2-IM-0002-0002.png", "NORMAL2-IM-0003-0001.png", "NORMAL2-IM-0003-0002.png",
                 "IM-0004-0001.png", "IM-0005-0001.png", "IM-0005-0002.png",
                 "NORMAL2-IM-0006-0001.png"}) == "(IM-\\d+)");
  // Numbers of single files, versions of all files and numbers within words do not name groups.
  CHECK(propose({"a/cat.0.jpg", "a/cat.1.jpg", "a/cat.2.jpg"}).empty());
  CHECK(propose({"a/v2_1.jpg", "a/v2_2.jpg", "a/v2_3.jpg", "a/v2_4.jpg"}).empty());
  CHECK(propose({"a/100_f5a.jpg", "a/101_f6.jpg", "a/102_f7.jpg", "a/103_f8.jpg"}).empty());
  CHECK(propose({}).empty());
  // Only the first eight numbers of a name are looked at: all beginnings of a name are stored.
  const auto propose_behind = [&](const std::string& numbers) {
    std::vector<std::string> paths;
    for (const char* name : {"p1_1", "p1_2", "p2_1", "p2_2", "p3_1"}) {
      paths.push_back(concat("x/", numbers, name, ".png"));
    }
    return propose(paths);
  };
  CHECK(propose_behind("5_5_5_5_5_5_5_") == "/(5_5_5_5_5_5_5_p\\d+)[_. -][^/]*$");
  CHECK(propose_behind("5_5_5_5_5_5_5_5_").empty());
  CHECK(propose_behind(std::string(1001, 'a')).empty());
}

TEST_CASE("propose_groups takes a few pairs among thousands of files for a coincidence") {
  std::vector<std::string> paths;
  for (int i = 0; i < 2572; ++i) paths.push_back(concat("a/photo", i < 3 ? i + 100 : i, "_x.jpg"));
  CHECK(propose_groups(paths).pattern.empty());
  for (int i = 0; i < 200; ++i) paths.push_back(concat("a/photo", i + 1000, "_y.jpg"));
  CHECK(propose_groups(paths).pattern == "(photo\\d+)");
}

TEST_CASE("check_images proposes a pattern unless groups are given") {
  Folder folder;
  write_persons(folder.files.path() / "train", 20);
  folder.config.group_by.clear();
  const DataCheck check = check_images(folder.config, 1, "");
  CHECK(contains(to_text(check), " training files in 20 groups, e.g. person"));
  CHECK(contains(to_text(check), "data.group_by: '(person\\d+)'\n"));
  CHECK(contains(to_json(check), "\"group_proposal\":\"file names show groups: "));
  CHECK(check_images(folder.config, 1, "(person\\d+)").group_proposal.empty());
  folder.config.group_by = "(person\\d+)";
  CHECK(check_images(folder.config, 1, "").group_proposal.empty());
}

TEST_CASE("group_by: no patient of chest X-rays is in two splits") {
  const char* shared_data = std::getenv("TRAINER_SHARED_DATA");
  const fs::path folder = fs::path(shared_data == nullptr ? "" : shared_data) / "chest_xray";
  if (!fs::is_directory(folder))
    TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with chest_xray");
  config::Data config = build_config(folder);
  config.validation_split = 0.2;
  config.group_by = "(person\\d+|IM-\\d+)";
  const Datasets sets = open_datasets(config, 42);
  const auto list_set = [](const Dataset& set) {
    const std::vector<std::string> list = list_groups(set);
    return std::set<std::string>(list.begin(), list.end());
  };
  CHECK(shared(list_set(*sets.train), list_set(*sets.validation)).empty());
  CHECK(sets.train->size() + sets.validation->size() == 2073);
  const auto all = class_counts(*open_datasets(config, 42, Split::kTrain).train, 2);
  const auto aside = class_counts(*sets.validation, 2);
  for (std::size_t label = 0; label < 2; ++label) {
    const auto count = static_cast<double>(aside[label]);
    CHECK(std::abs(count - 0.2 * (count + static_cast<double>(all[label]))) < 2);
  }
  config.group_by.clear();
  const Datasets plain = open_datasets(config, 42);
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < plain.train->size(); ++i) paths.push_back(plain.train->describe(i));
  CHECK(propose_groups(paths).pattern == "(IM-\\d+|person\\d+)");
}

}  // namespace trainer::data::group_by_test
