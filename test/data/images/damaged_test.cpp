#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "base/text.h"
#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/decode/encoded_jpeg.h"
#include "data/images/image_files.h"
#include "data/open.h"
#include "data/open_images.h"
#include "data/samples/splits.h"

namespace trainer::data::damaged_test {

using commands::to_text;

TEST_CASE("content_key is independent of the seed and the division unless on_error is replace") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  config::Data config = build_config(folder.path());
  config.validation_split = 0.5;
  const auto whole = [&](std::uint64_t seed) {
    const Datasets sets = open_datasets(config, seed);
    const Dataset* const found = sets.train->find_part().whole;
    CHECK(sets.validation->find_part().whole == found);
    return found == nullptr ? "" : found->content_key();
  };
  const std::string key = whole(1);
  CHECK(key != "");
  CHECK(whole(2) == key);
  config.on_error = config::OnError::kReplace;
  CHECK(whole(1) == "");  // the parts replace with different images
  config.validation_split = 0;
  CHECK(open_datasets(config, 1).train->content_key() !=
        open_datasets(config, 2).train->content_key());
}

TEST_CASE("on_error skip: a file is decoded at the first start only, and again after a change") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  config::Data config = build_config(folder.path());
  config.on_error = config::OnError::kSkip;
  config.error_budget = 5;
  config.cache_dir = folder.path() / "cache";
  const auto hour = std::chrono::minutes(60);
  const auto old = fs::file_time_type::clock::now() - hour;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "train")) {
    if (entry.is_regular_file()) fs::last_write_time(entry.path(), old);
  }
  const fs::path file = folder.path() / "train/cat/deep/cat1.ppm";
  const std::string content = read_text_file(file);
  // Keeps size and time, so that only the content could show the damage.
  const auto damage = [&](const fs::file_time_type& time) {
    std::string damaged = content;
    damaged[1] = 'x';
    write_text(file, damaged);
    fs::last_write_time(file, time);
  };
  const auto found = [&] { return open_datasets(config, 1).train->size(); };
  const Progress progress;
  REQUIRE(open_datasets(config, 1, {}, progress).train->size() == 12);
  CHECK(progress.count() > 24);  // each file is listed and decoded
  const fs::path kept = fs::directory_iterator(config.cache_dir)->path();
  damage(old);
  CHECK(found() == 12);

  SUBCASE("a change is seen") {
    damage(old + hour / 2);
    CHECK(found() == 11);
    CHECK(found() == 11);  // and what is damaged is not taken for readable
    write_text(file, content);
    CHECK(found() == 12);
  }
  SUBCASE("other settings are another question") {
    config.max_pixels = 1000;
    CHECK(found() == 11);
  }
  SUBCASE("a damaged, foreign or missing list is none") {
    const std::string list = read_text_file(kept);
    for (const std::string& text :
         {std::string(), list.substr(0, list.size() - 16), list.substr(0, 5),
          list.substr(0, list.size() - 1) + static_cast<char>(list.back() ^ 1),
          "x" + list.substr(1), std::string(100'000, 'x')}) {
      write_text(kept, text);
      CHECK(found() == 11);
    }
    fs::remove(kept);
    fs::create_directories(kept);  // not to be written either
    CHECK(found() == 11);
  }
  SUBCASE("a file that turns out damaged after all is looked at by the next start") {
    const Datasets sets = open_datasets(config, 1);
    CHECK_THROWS_AS(labels(*sets.train), DataError);
    CHECK(found() == 11);
  }
}

TEST_CASE("on_error skip: a file that was just written is decoded at the next start") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  config::Data config = build_config(folder.path());
  config.on_error = config::OnError::kSkip;
  config.cache_dir = folder.path() / "cache";
  const auto soon = fs::file_time_type::clock::now() + std::chrono::hours(1);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "train")) {
    if (entry.is_regular_file()) fs::last_write_time(entry.path(), soon);
  }
  open_datasets(config, 1);
  CHECK_FALSE(fs::exists(config.cache_dir));
}

// A name that would turn a terminal red and begin a line of its own.
constexpr const char* kHostileName = "\x1b[31mred\nall files are readable.png";

TEST_CASE(
    "damaged file: messages are plain lines for a name with an escape sequence and a newline") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  write_text(folder.path() / "train/cat" / kHostileName, "not an image");
  config::Data config = build_config(folder.path());
  const std::string shown = "cat/\\x1b[31mred\\x0aall files are readable.png: is not a supported";
  CHECK_THROWS_WITH_AS(batches(*open_datasets(config, 1).train, 2),
                       doctest::Contains(shown.c_str()), DataError);
  const std::string text = to_text(check_images(config, 1, ""));
  CHECK(text.find(shown) != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  for (const auto on_error : {config::OnError::kSkip, config::OnError::kReplace}) {
    config.on_error = on_error;
    const Datasets sets = open_datasets(config, 1);
    labels(*sets.train);
    const std::vector<std::string> report = sets.train_files->report();
    REQUIRE_FALSE(report.empty());
    CHECK(report[0].find(shown) != std::string::npos);
    for (const std::string& line : report) CHECK(is_line_of_text(line));
  }
}

TEST_CASE("data.on_error: fail, skip and replace apply within data.error_budget") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  write_text(folder.path() / "train/cat/broken.png", "not an image at all");
  config::Data config = build_config(folder.path());
  const std::string name = "broken.png: is not a supported image format";
  CHECK_THROWS_WITH_AS(batches(*open_datasets(config, 1).train, 2), doctest::Contains(name.c_str()),
                       DataError);
  config.on_error = config::OnError::kSkip;
  const Datasets skipped = open_datasets(config, 1);
  CHECK(skipped.train->size() == 12);
  REQUIRE(skipped.train_files->report().size() == 2);
  CHECK(skipped.train_files->report()[0].find("skipped (class cat): ") == 0);
  CHECK(skipped.train_files->report()[0].find(name) != std::string::npos);
  CHECK(skipped.train_files->report()[1] == "class cat: 1 of 7 files skipped");
  config.on_error = config::OnError::kReplace;
  const Datasets replaced = open_datasets(config, 1);
  CHECK(replaced.train->size() == 13);
  const std::vector<Bytes> one = batches(*replaced.train, 1);
  CHECK(batches(*replaced.train, 4) == one);
  CHECK(batches(*open_datasets(config, 1).train, 3) == one);
  REQUIRE(replaced.train_files->report().size() == 1);
  CHECK(replaced.train_files->report()[0].find("replaced (class cat): ") == 0);
  CHECK(load_image(*replaced.train, 0) == load_image(*replaced.train, 0));

  for (const auto mode : {config::OnError::kSkip, config::OnError::kReplace}) {
    config.on_error = mode;
    config.error_budget = 0;
    CHECK_THROWS_WITH_AS(batches(*open_datasets(config, 1).train, 1),
                         doctest::Contains("error_budget allows (0)"), DataError);
    write_text(folder.path() / "train/dog/broken.png", "");
    config.error_budget = 1;
    CHECK_THROWS_AS(batches(*open_datasets(config, 1).train, 1), DataError);
    config.error_budget = 2;
    CHECK_NOTHROW(batches(*open_datasets(config, 1).train, 1));
    fs::remove(folder.path() / "train/dog/broken.png");
  }
}

TEST_CASE("on_error replace: a damaged training file is replaced by one of its own part") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 12);
  for (int i = 0; i < 6; ++i) {
    write_text(folder.path() / "train/cat/deep" / concat("cat", i, "x.png"), "not an image at all");
  }
  config::Data config = build_config(folder.path());
  config.error_budget = 100;
  config.on_error = config::OnError::kReplace;
  config.validation_split = 0.4;
  config.limit = 24;  // of 30
  const Datasets sets = open_datasets(config, 1);
  const auto damaged = [](const Dataset& set, std::int64_t i) {
    return set.describe(i).ends_with(".png");
  };
  std::vector<Bytes> whole;
  for (std::int64_t i = 0; i < sets.train->size(); ++i) {
    if (!damaged(*sets.train, i)) whole.push_back(load_image(*sets.train, i));
  }
  std::int64_t replaced = 0;
  for (std::int64_t i = 0; i < sets.train->size(); ++i) {
    if (!damaged(*sets.train, i)) continue;
    CHECK(std::count(whole.begin(), whole.end(), load_image(*sets.train, i)) == 1);
    ++replaced;
  }
  CHECK(replaced > 1);

  const Damage left_out = sets.validation_files->damage();
  REQUIRE(left_out.skipped > 1);
  CHECK(left_out.files == 10);
  CHECK(sets.validation->size() == 10 - left_out.skipped);
  CHECK(left_out.reasons[0].find("x.png: is not a supported image format") != std::string::npos);
  CHECK(left_out.reasons.size() == static_cast<std::size_t>(left_out.skipped));
  for (std::int64_t i = 0; i < sets.validation->size(); ++i) CHECK(!damaged(*sets.validation, i));
  CHECK(sets.validation_files->report().size() == left_out.reasons.size());
  CHECK(same_division(sets.train->fingerprint(), sets.validation->fingerprint()));

  // One that is damaged after that is not replaced either.
  write_text(sets.validation->describe(0), "");
  CHECK_THROWS_AS(load_image(*sets.validation, 0), DataError);
  // The training images themselves may be evaluated on.
  Datasets again = open_datasets(config, 1, Split::kTrain);
  leave_out_unreadable(again.train, again.train_files, DamagedFiles::Portion::kMain);
  CHECK(again.train->size() == sets.train->size() - replaced);
  CHECK(again.train_files->damage().skipped == replaced);
}

TEST_CASE("on_error replace: a damaged file of the test split is left out") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "test", 2, 40);
  write_text(folder.path() / "test/dog/broken.png", "junk");
  config::Data config = build_config(folder.path());
  config.on_error = config::OnError::kReplace;
  const Datasets sets = open_datasets(config, 1, Split::kTest);
  CHECK(sets.test->size() == 4);
  CHECK(sets.test_files->damage().skipped == 1);
  CHECK(sets.test_files->damage().replaced == 0);
}

TEST_CASE("image_folder: images beside the folders of the classes are reported") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  CHECK(open_datasets(build_config(folder.path()), 1).train_files->damage().left_aside.empty());
  write_image(folder.path() / "train/stray.ppm", 4, 4, 1);
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  REQUIRE(sets.train_files->damage().left_aside.size() == 1);
  const std::string note = sets.train_files->damage().left_aside[0];
  CHECK(note.find("1 image file is left aside, because it lies in no folder of a class") !=
        std::string::npos);
  CHECK(note.ends_with("train/stray.ppm"));
  const DataCheck check = check_images(build_config(folder.path()), 1, "");
  CHECK(check.splits[0].notes == std::vector<std::string>{note});
}

TEST_CASE(
    "image_folder: an image is detected by its name or first bytes, other files are counted") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  const fs::path cats = folder.path() / "train/cat";
  const auto write = [&](const char* name, const std::string& bytes) {
    write_file_atomic(cats / name, bytes);
  };
  write("no_ending", "\xFF\xD8\xFF\xE0");
  write("wrong.dat", "\x89PNG\r\n\x1A\n");
  write("notes.txt", "P6 is not an image here");
  write("more.txt", "BM, GIF and PNG");
  const DataCheck check = check_images(build_config(folder.path()), 1, "");
  CHECK(check.splits[0].per_class == std::vector<std::int64_t>{2 + 2, 2});
  REQUIRE(check.splits[0].notes.size() == 1);
  CHECK(check.splits[0].notes[0].find(
            ": 2 files are left aside, because they are not images, e.g. ") != std::string::npos);
}

TEST_CASE("image_folder: broken links, pipes and a loop of links are counted and named") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  const fs::path cats = folder.path() / "train/cat";
  fs::create_symlink("nowhere.jpg", cats / "dangling.jpg");
  fs::create_symlink("self.jpg", cats / "self.jpg");
  fs::create_symlink("..", cats / "deep/up");
  REQUIRE(::mkfifo((cats / "pipe.png").c_str(), 0600) == 0);
  fs::create_symlink("self", folder.path() / "train/self");
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  const std::vector<std::string> lines = sets.train_files->damage().left_aside;
  REQUIRE(lines.size() == 2);
  CHECK(
      lines[0] ==
      concat(
          (folder.path() / "train").string(),
          ": 3 entries are left aside, because they are named like images but are not files, e.g. ",
          (cats / "dangling.jpg").string(), " (a link to nothing)"));
  CHECK(lines[1] == concat((folder.path() / "train").string(),
                           ": 1 link to a folder is not followed, e.g. ",
                           (cats / "deep/up").string(),
                           "; put the images there, or make the folder of a class the link"));
  CHECK(check_images(build_config(folder.path()), 1, "").splits[0].notes == lines);
  config::Data glob = build_config("");
  glob.train.glob = (folder.path() / "train/*/*/*.ppm").string();
  glob.classes = {"deep"};
  CHECK(open_datasets(glob, 1).train->size() == 4);
}

TEST_CASE(
    "image_folder: a class folder may be a link, links to folders below it are not followed") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  write_folder(folder.path() / "elsewhere", 3);
  fs::rename(folder.path() / "train/cat", folder.path() / "cats");
  fs::create_directory_symlink("../cats", folder.path() / "train/cat");
  fs::create_directory_symlink(folder.path() / "elsewhere/dog", folder.path() / "train/dog/more");
  fs::create_directory_symlink(folder.path() / "elsewhere/dog", folder.path() / "cats/more");
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  const std::vector<std::string> lines = sets.train_files->damage().left_aside;
  REQUIRE(lines.size() == 3);  // the last two: folders beside train
  CHECK(lines[0].find(": 2 links to folders are not followed, e.g. ") != std::string::npos);
  std::string note;
  CHECK(image_files((folder.path() / "train").string(), &note).size() == 4);
  CHECK(note.find(": 2 links to folders are not followed") != std::string::npos);
  // A folder without images of its own may be the one of the classes.
  const std::string cat = (folder.path() / "train/cat").string();
  CHECK(image_files(cat, &note).size() == 5);
  CHECK(note.empty());
  const Path own = folder.path() / "cats/own.ppm";
  fs::copy_file(image_files(cat).front(), own);
  CHECK(image_files(cat, &note).size() == 3);
  CHECK(note.find(": 1 link to a folder is not followed") != std::string::npos);
  fs::remove(own);

  // The pattern of a glob states the folders, links or not.
  config::Data glob = build_config("");
  glob.classes = {"deep"};
  glob.train.glob = (folder.path() / "train/*/deep/*.ppm").string();
  CHECK(open_datasets(glob, 1).train->size() == 4);
  glob.train.glob = (folder.path() / "train/*/more/deep/*.ppm").string();
  CHECK(open_datasets(glob, 1).train->size() == 6);
}

TEST_CASE(
    "DamagedFiles: warnings of the decoder are counted by file, control characters are escaped") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  Random random(1, Stream::kSynthetic);
  Bytes jpeg = encode_jpeg({32, 32, 3, 2, 2, 75, 2}, 9, random);
  const std::uint8_t marker[] = {0xFF, 0xD0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), marker, marker + 2);
  REQUIRE(at != jpeg.end());
  jpeg.insert(at, 5, 0x55);
  write_file_atomic(folder.path() / "train/cat/a.jpg", jpeg);
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  for (int epoch = 0; epoch < 2; ++epoch) labels(*sets.train);
  const Damage damage = sets.train_files->damage();
  CHECK(damage.warned == 1);
  CHECK(damage.warning == concat((folder.path() / "train/cat/a.jpg").string(),
                                 ": Corrupt JPEG data: 5 extraneous bytes before marker 0xd0"));
  write_text(folder.path() / "train/cat/\x1b[31m\nb.jpg", "no image");
  const std::string text = to_text(check_images(build_config(folder.path()), 1, ""));
  CHECK(text.find("cat/\\x1b[31m\\x0ab.jpg: is not a supported image format") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

}  // namespace trainer::data::damaged_test
