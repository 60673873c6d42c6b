#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "data/check.h"
#include "data/data.h"
#include "data/decode/encoded_jpeg.h"
#include "data/decode/image_file.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// A binary PNM, the simplest image file there is.
void write_image(const fs::path& path, int height, int width, int seed, bool grey = false) {
  fs::create_directories(path.parent_path());
  std::string text = concat(grey ? "P5 " : "P6 ", width, ' ', height, " 255\n");
  Random random(static_cast<std::uint64_t>(seed), Stream::kSynthetic);
  for (int i = 0; i < height * width * (grey ? 1 : 3); ++i) {
    text += static_cast<char>(random.below(256));
  }
  std::ofstream(path, std::ios::binary) << text;
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Two classes with `count` files each of varying size.
void write_folder(const fs::path& folder, int count, int seed = 0) {
  for (const char* name : {"cat", "dog"}) {
    for (int i = 0; i < count; ++i) {
      const int number = ++seed;
      write_image(folder / name / concat("deep/", name, number, ".ppm"), 10 + number % 7,
                  12 + number % 5, number);
    }
  }
}

config::Data config_of(const fs::path& path) {
  config::Data config;
  config.format = config::DataFormat::kImageFolder;
  config.path = path.string();
  config.resize = {8, 6};
  return config;
}

Bytes image_of(const Dataset& set, std::int64_t index, std::int64_t epoch = kNoEpoch) {
  Bytes image(static_cast<std::size_t>(set.spec().image_shape.elements()));
  std::int32_t label = -1;
  set.get(index, epoch, image.data(), &label);
  return image;
}

std::vector<std::int32_t> labels(const Dataset& set) {
  std::vector<std::int32_t> result;
  Bytes image(static_cast<std::size_t>(set.spec().image_shape.elements()));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.get(i, image.data(), &result.emplace_back());
  }
  return result;
}

template <class Op>
config::Augmentation augmentation(Op op) {
  return {op, {}};
}

// All batches of two epochs, read by this many threads.
std::vector<Bytes> batches(const Dataset& set, std::int64_t threads, std::int64_t first = 0) {
  LoaderOptions options;
  options.batch_size = 3;
  options.shuffle = true;
  options.threads = threads;
  options.first_step = first;
  options.end_step = 2 * batches_per_epoch(set.size(), 3);
  std::vector<Bytes> result;
  const auto loader = make_loader(set, options);
  while (const Batch* batch = loader->next()) {
    const auto* from = static_cast<const std::uint8_t*>(batch->images);
    result.emplace_back(from, from + batch->range.count * set.spec().image_shape.elements());
    loader->release();
  }
  return result;
}

}  // namespace

TEST_CASE("a folder a class, nested, classes sorted or as listed, splits by name") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "val", 1, 50);
  write_text(folder.path() / "train/cat/notes.txt", "x");
  write_text(folder.path() / "train/cat/.hidden.ppm", "x");
  config::Data config = config_of(folder.path());
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(sets.num_classes == 2);
  CHECK(sets.image_shape == Shape{8, 6, 3});
  CHECK(sets.test == nullptr);
  REQUIRE(sets.validation != nullptr);
  CHECK(sets.validation->size() == 2);
  CHECK(labels(*sets.train) == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1});
  CHECK(sets.train_files->report().size() == 1);
  CHECK(sets.train->describe(0).ends_with("train/cat/deep/cat1.ppm"));
  CHECK(!sets.train->spec().is_random);
  config.classes = {"dog", "cat"};
  CHECK(labels(*open_datasets(config, 1).train)[0] == 0);
  CHECK(open_datasets(config, 1).train->describe(0).find("dog") != std::string::npos);
  config.classes = {"dog"};
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("cat: is no class"), DataError);
  config.classes = {"dog", "cat", "cow"};
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("cow: no such folder"),
                       DataError);
  fs::create_directories(folder.path() / "train/cow");
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("cow: holds no image files"),
                       DataError);
}

TEST_CASE("a glob takes the class from the parent folder") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "all/train", 2);
  write_image(folder.path() / "all/train/dog/extra.pgm", 5, 5, 9, true);
  config::Data config = config_of("");
  config.train.path = folder.path();
  config.train.glob = "all/train/**/*.ppm";
  CHECK(open_datasets(config, 1).classes == std::vector<std::string>{"deep"});
  config.train.glob = "**/*.pgm";
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.classes == std::vector<std::string>{"dog"});
  CHECK(sets.train->size() == 1);
  // A grey file in an RGB set: three equal channels.
  const Bytes image = image_of(*sets.train, 0);
  CHECK(image[0] == image[1]);
  CHECK(image[0] == image[2]);
  config.train.glob = "*/*.png";
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("matches no file"), DataError);
}

TEST_CASE("a limit keeps every class its share, and the order of the list") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 12);
  for (int i = 0; i < 6; ++i)
    fs::remove(folder.path() / concat("train/dog/deep/dog", 13 + i, ".ppm"));
  config::Data config = config_of(folder.path());
  const auto files = [&](std::int64_t limit, std::uint64_t seed = 1) {
    config.limit = limit;
    const Datasets sets = open_datasets(config, seed);
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < sets.train->size(); ++i) names.push_back(sets.train->describe(i));
    return names;
  };
  files(9);
  const Datasets sets = open_datasets(config, 1);
  CHECK(class_counts(*sets.train, 2) == std::vector<std::int64_t>{6, 3});
  config.validation_split = 0.3;
  const Datasets parts = open_datasets(config, 1);
  CHECK(class_counts(*parts.train, 2)[0] + class_counts(*parts.validation, 2)[0] == 6);
  config.validation_split = 0;
  const std::vector<std::string> nine = files(9), five = files(5);
  CHECK(std::is_sorted(nine.begin(), nine.end()));
  CHECK(std::includes(nine.begin(), nine.end(), five.begin(), five.end()));
  CHECK(files(9) == nine);
  CHECK(files(9, 2) != nine);
  CHECK(files(2).size() == 2);
  files(2);
  CHECK(class_counts(*open_datasets(config, 1).train, 2) == std::vector<std::int64_t>{1, 1});
  CHECK(files(100).size() == 18);
}

TEST_CASE("csv: labels by name or number, quotes, and mistakes with their line") {
  const TemporaryFolder folder;
  write_image(folder.path() / "a, b.ppm", 4, 4, 1);
  write_image(folder.path() / "c.ppm", 4, 4, 2);
  const fs::path csv = folder.path() / "list.csv";
  config::Data config = config_of("");
  config.format = config::DataFormat::kCsv;
  config.train.path = csv;
  write_text(csv, "path,label\r\n\"a, b.ppm\",dog\r\nc.ppm,cat\r\n\n");
  CHECK(labels(*open_datasets(config, 1).train) == std::vector<std::int32_t>{1, 0});
  write_text(csv, "\"a, b.ppm\",0\nc.ppm,3");
  CHECK(open_datasets(config, 1).num_classes == 4);
  config.classes = {"dog", "cat"};
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("list.csv:2: the label '3'"),
                       DataError);
  const auto error = [&](const std::string& text) -> std::string {
    write_text(csv, text);
    try {
      open_datasets(config, 1);
    } catch (const DataError& thrown) {
      return std::string(thrown.what()).substr(csv.string().size());
    }
    return "";
  };
  CHECK(error("c.ppm,dog\nc.ppm\n") == ":2: has 1 fields; expected path,label");
  CHECK(error("c.ppm,dog\n,cat\n") == ":2: has no path");
  CHECK(error("c.ppm,\n") == ":1: has no label");
  CHECK(error("c.ppm,dog\n\"c.ppm,dog\n") == ":2: has a quote that is not closed");
  CHECK(error("") == ": holds no path,label line");
  CHECK(error("c.ppm,dog\nd.ppm,dog\n").starts_with(":2: there is no file "));
  CHECK(error("label,file\ndog,c.ppm\n") == ":1: the columns are label,file; expected path,label");
  CHECK(error("filename,class\nc.ppm,dog\n").empty());
}

TEST_CASE("random changes are a function of seed, epoch and index, for any threads and resume") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 5);
  config::Data config = config_of(folder.path());
  config.train.augment = {
      augmentation(config::RandomResizedCrop{}),  augmentation(config::RandomFlipHorizontal{}),
      augmentation(config::RandomFlipVertical{}), augmentation(config::RandomRotation{30}),
      augmentation(config::RandomShift{}),        augmentation(config::RandomZoom{}),
      augmentation(config::Brightness{}),         augmentation(config::Contrast{}),
      augmentation(config::Saturation{}),         augmentation(config::Hue{}),
      augmentation(config::RandomErasing{})};
  const Datasets sets = open_datasets(config, 7);
  CHECK(sets.train->spec().is_random);
  const std::vector<Bytes> one = batches(*sets.train, 1);
  CHECK(batches(*sets.train, 4) == one);
  CHECK(batches(*open_datasets(config, 7).train, 0) == one);
  CHECK(batches(*sets.train, 2, 3) == std::vector<Bytes>(one.begin() + 3, one.end()));
  CHECK(batches(*open_datasets(config, 8).train, 1) != one);
  CHECK(image_of(*sets.train, 0, 0) != image_of(*sets.train, 0, 1));
  CHECK(image_of(*sets.train, 0) == image_of(*sets.train, 0));
  for (const auto cache : {config::ImageCache::kMemory}) {
    config.cache = cache;
    config.scaled_decode = false;
    const Datasets cached = open_datasets(config, 7);
    CHECK(batches(*cached.train, 3) == one);
    CHECK(batches(*cached.train, 3) == one);
  }
  // The part set aside for validation is never changed.
  config.validation_split = 0.3;
  const Datasets parts = open_datasets(config, 7);
  CHECK(parts.train->spec().is_random);
  CHECK(!parts.validation->spec().is_random);
  CHECK(image_of(*parts.validation, 0, 0) == image_of(*parts.validation, 0, 1));
}

TEST_CASE("caches give the uncached images, also in the next process") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 4);
  config::Data config = config_of(folder.path());
  const std::vector<Bytes> expected = batches(*open_datasets(config, 1).train, 1);
  config.cache_dir = folder.path() / "cache";
  for (const auto cache : {config::ImageCache::kMemory, config::ImageCache::kDisk}) {
    config.cache = cache;
    for (int process = 0; process < 2; ++process) {
      CHECK(batches(*open_datasets(config, 1).train, 3) == expected);
    }
  }
  // Few images, many threads, several epochs: the same image is wanted by several batches at once.
  fs::remove_all(config.cache_dir);
  const Datasets shared = open_datasets(config, 1);
  LoaderOptions options;
  options.batch_size = shared.train->size();
  options.threads = 4;
  options.prefetch = 8;
  options.end_step = 8;
  const auto loader = make_loader(*shared.train, options);
  const std::size_t bytes =
      static_cast<std::size_t>(shared.train->size() * shared.image_shape.elements());
  std::vector<std::byte> first;
  while (const Batch* batch = loader->next()) {
    const auto* images = static_cast<const std::byte*>(batch->images);
    if (first.empty()) first.assign(images, images + bytes);
    CHECK(std::equal(first.begin(), first.end(), images));
    loader->release();
  }
  // A half-written image does not pass.
  const fs::path file = fs::directory_iterator(config.cache_dir)->path();
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-10, std::ios::end);
    stream << "damaged";
  }
  CHECK(batches(*open_datasets(config, 1).train, 1) == expected);
}

TEST_CASE("a folder whose name is no line of text cannot name a class") {
  for (const std::string name : {"caf\xe9", "two\nlines"}) {
    const TemporaryFolder folder;
    write_folder(folder.path() / "train", 1);
    write_image(folder.path() / "train" / name / "a.ppm", 8, 8, 1);
    const std::string shown = name[0] == 'c' ? "'caf\\xe9'" : "'two\\x0alines'";
    CHECK_THROWS_WITH_AS(open_datasets(config_of(folder.path()), 1),
                         doctest::Contains(("train: the folder " + shown).c_str()), DataError);
  }
}

TEST_CASE("skip looks at a file once, and again when it has changed") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  config::Data config = config_of(folder.path());
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
  // Of the same size and time, so that only a look inside could tell.
  const auto damage = [&](const fs::file_time_type& time) {
    std::string damaged = content;
    damaged[1] = 'x';
    write_text(file, damaged);
    fs::last_write_time(file, time);
  };
  const auto found = [&] { return open_datasets(config, 1).train->size(); };
  REQUIRE(found() == 12);
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

TEST_CASE("a file that has just been written is looked at again") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  config::Data config = config_of(folder.path());
  config.on_error = config::OnError::kSkip;
  config.cache_dir = folder.path() / "cache";
  const auto soon = fs::file_time_type::clock::now() + std::chrono::hours(1);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "train")) {
    if (entry.is_regular_file()) fs::last_write_time(entry.path(), soon);
  }
  open_datasets(config, 1);
  CHECK_FALSE(fs::exists(config.cache_dir));
}

TEST_CASE("damaged files: fail, skip, replace, within a budget") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 6);
  write_text(folder.path() / "train/cat/broken.png", "not an image at all");
  config::Data config = config_of(folder.path());
  const std::string name = "broken.png: is no image of a known kind";
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
  CHECK(image_of(*replaced.train, 0) == image_of(*replaced.train, 0));

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

TEST_CASE("a damaged file is replaced in training alone, from its own part of a split") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 12);
  for (int i = 0; i < 6; ++i) {
    write_text(folder.path() / "train/cat/deep" / concat("cat", i, "x.png"), "not an image at all");
  }
  config::Data config = config_of(folder.path());
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
    if (!damaged(*sets.train, i)) whole.push_back(image_of(*sets.train, i));
  }
  std::int64_t replaced = 0;
  for (std::int64_t i = 0; i < sets.train->size(); ++i) {
    if (!damaged(*sets.train, i)) continue;
    CHECK(std::count(whole.begin(), whole.end(), image_of(*sets.train, i)) == 1);
    ++replaced;
  }
  CHECK(replaced > 1);

  const Damage left_out = sets.validation_files->damage();
  REQUIRE(left_out.skipped > 1);
  CHECK(left_out.files == 10);
  CHECK(sets.validation->size() == 10 - left_out.skipped);
  CHECK(left_out.reasons[0].find("x.png: is no image of a known kind") != std::string::npos);
  CHECK(left_out.reasons.size() == static_cast<std::size_t>(left_out.skipped));
  for (std::int64_t i = 0; i < sets.validation->size(); ++i) CHECK(!damaged(*sets.validation, i));
  CHECK(sets.validation_files->report().size() == left_out.reasons.size());
  CHECK(same_division(sets.train->fingerprint(), sets.validation->fingerprint()));

  // One that is damaged after that is not replaced either.
  write_text(sets.validation->describe(0), "");
  CHECK_THROWS_AS(image_of(*sets.validation, 0), DataError);
  // The training images themselves may be evaluated on.
  Datasets again = open_datasets(config, 1, "train");
  leave_out_unreadable(again.train, again.train_files, DamagedFiles::Portion::kMain);
  CHECK(again.train->size() == sets.train->size() - replaced);
  CHECK(again.train_files->damage().skipped == replaced);
}

TEST_CASE("no image of a test split stands in for a damaged one") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "test", 2, 40);
  write_text(folder.path() / "test/dog/broken.png", "junk");
  config::Data config = config_of(folder.path());
  config.on_error = config::OnError::kReplace;
  const Datasets sets = open_datasets(config, 1, "test");
  CHECK(sets.test->size() == 4);
  CHECK(sets.test_files->damage().skipped == 1);
  CHECK(sets.test_files->damage().replaced == 0);
}

TEST_CASE("images beside the folders of the classes are told of") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  CHECK(open_datasets(config_of(folder.path()), 1).train_files->damage().left_aside.empty());
  write_image(folder.path() / "train/stray.ppm", 4, 4, 1);
  const Datasets sets = open_datasets(config_of(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  REQUIRE(sets.train_files->damage().left_aside.size() == 1);
  const std::string note = sets.train_files->damage().left_aside[0];
  CHECK(note.find("1 image file is left aside, lying in no folder of a class") !=
        std::string::npos);
  CHECK(note.ends_with("train/stray.ppm"));
  const DataCheck check = check_images(config_of(folder.path()), 1, "");
  CHECK(check.splits[0].notes == std::vector<std::string>{note});
}

TEST_CASE("the fingerprint changes with files, labels and recipe") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  config::Data config = config_of(folder.path());
  const auto print = [&] { return open_datasets(config, 1).train->fingerprint(); };
  const std::string first = print();
  CHECK(print() == first);
  config.antialias = false;
  CHECK(print() != first);
  config.antialias = true;
  write_image(folder.path() / "train/cat/more.ppm", 4, 4, 1);
  CHECK(print() != first);
}

TEST_CASE("the check counts, names damage, and finds what two splits share") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "test", 1, 40);
  CHECK(check_images(config_of(folder.path()), 1, "").clean());
  write_text(folder.path() / "train/dog/bad.jpg", "\xFF\xD8");
  fs::copy_file(folder.path() / "train/cat/deep/cat1.ppm", folder.path() / "test/cat/cat1.ppm");
  const DataCheck check = check_images(config_of(folder.path()), 1, "(cat\\d+)\\.ppm");
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

TEST_CASE("the sheet is a PNG of the expected size") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  const fs::path path = folder.path() / "sheet.png";
  write_sheet(config_of(folder.path()), 1, 5, path.string());
  const Bytes file = read_file(path);
  const ImageInfo info = ImageFile(file, path.string(), {}).info();
  CHECK(info.kind == ImageKind::kPng);
  CHECK(info.width == 3 * (6 + 4) + 4);
  CHECK(info.height == 2 * (8 + 12 + 4) + 4);
}

TEST_CASE("the check takes the validation split that training takes") {
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
  config::Data config = config_of(folder.path());
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
  REQUIRE(shared > 3);

  const DataCheck check = check_images(config, 5, "/([a-z]+[0-9]+)[^/]*$");
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[1].name == "validation");
  const auto& counts = check.splits[1].per_class;
  CHECK(counts[0] + counts[1] == sets.validation->size());
  CHECK(check.duplicates.size() == shared);
  CHECK(check.shared_groups.size() == shared);
  CHECK(check.advice.find("data.validation: {path: ...}") != std::string::npos);
  CHECK(to_text(check).find(check.advice) != std::string::npos);
  CHECK(check.splits[0].notes.size() == (limited ? 1 : 0));
}

TEST_CASE(
    "links to nothing, to themselves and pipes are counted and named, a loop of folders ends") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  const fs::path cats = folder.path() / "train/cat";
  fs::create_symlink("nowhere.jpg", cats / "dangling.jpg");
  fs::create_symlink("self.jpg", cats / "self.jpg");
  fs::create_symlink("..", cats / "deep/up");
  REQUIRE(::mkfifo((cats / "pipe.png").c_str(), 0600) == 0);
  fs::create_symlink("self", folder.path() / "train/self");
  const Datasets sets = open_datasets(config_of(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  const std::vector<std::string> lines = sets.train_files->damage().left_aside;
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == concat((folder.path() / "train").string(),
                           ": 3 names of images are left aside, not being files, e.g. ",
                           (cats / "dangling.jpg").string(), " (a link to nothing)"));
  CHECK(check_images(config_of(folder.path()), 1, "").splits[0].notes == lines);
  config::Data glob = config_of("");
  glob.train.glob = (folder.path() / "train/*/*/*.ppm").string();
  glob.classes = {"deep"};
  CHECK(open_datasets(glob, 1).train->size() == 4);
}

TEST_CASE("a number in a csv does not make more classes than its lines can have") {
  const TemporaryFolder folder;
  write_image(folder.path() / "c.ppm", 4, 4, 2);
  config::Data config = config_of("");
  config.format = config::DataFormat::kCsv;
  config.train.path = folder.path() / "list.csv";
  write_text(config.train.path, "c.ppm,0\nc.ppm,608060806\nc.ppm,3\n");
  CHECK_THROWS_WITH_AS(
      open_datasets(config, 1),
      doctest::Contains("list.csv:2: the label 608060806 would make 608060807 classes of 3 files"),
      DataError);
  write_text(config.train.path, "c.ppm,9999\n");
  CHECK(open_datasets(config, 1).num_classes == 10000);
}

TEST_CASE(
    "warnings of the decoder are counted by file, and names reach a terminal without controls") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  Random random(1, Stream::kSynthetic);
  Bytes jpeg = encode_jpeg({32, 32, 3, 2, 2, 75, 2}, 9, random);
  const std::uint8_t marker[] = {0xFF, 0xD0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), marker, marker + 2);
  REQUIRE(at != jpeg.end());
  jpeg.insert(at, 5, 0x55);
  write_file_atomic(folder.path() / "train/cat/a.jpg", jpeg);
  const Datasets sets = open_datasets(config_of(folder.path()), 1);
  for (int epoch = 0; epoch < 2; ++epoch) labels(*sets.train);
  const Damage damage = sets.train_files->damage();
  CHECK(damage.warned == 1);
  CHECK(damage.warning == concat((folder.path() / "train/cat/a.jpg").string(),
                                 ": Corrupt JPEG data: 5 extraneous bytes before marker 0xd0"));
  write_text(folder.path() / "train/cat/\x1b[31m\nb.jpg", "no image");
  const std::string text = to_text(check_images(config_of(folder.path()), 1, ""));
  CHECK(text.find("cat/\\x1b[31m\\x0ab.jpg: is no image") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

}  // namespace trainer::data
