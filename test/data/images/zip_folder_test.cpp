#include "data/images/listing/zip_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/image_size.h"
#include "data/images/image_files.h"
#include "data/images/listing/folders.h"
#include "data/open_images.h"
#include "support/contains.h"
#include "support/skip.h"
#include "support/zip_writer.h"

namespace trainer::data::zip_folder_test {
namespace {

using test::contains;
using test::pack_zip;
using test::Zip64;
using test::ZipEntry;

// Returns an image of 9 x 9 pixels, which differs by `seed`.
std::string make_image(int seed) {
  std::string text = "P6 9 9 255\n";
  Random random(static_cast<std::uint64_t>(seed), Stream::kSynthetic);
  for (int i = 0; i < 9 * 9 * 3; ++i) text += static_cast<char>(random.below(64));
  return text;
}

// Class folders cat and dog below `prefix`, half of the images deflated.
std::vector<ZipEntry> make_entries(const std::string& prefix, int count, int seed = 0) {
  std::vector<ZipEntry> entries;
  for (const char* name : {"dog", "cat"}) {
    for (int i = count; i >= 1; --i) {
      entries.push_back({concat(prefix, name, '/', i, ".ppm"), make_image(++seed),
                         static_cast<std::uint16_t>(i % 2 == 0 ? 8 : 0)});
    }
  }
  return entries;
}

struct Archive {
  TemporaryFolder files;
  fs::path path = files.path() / "photos.zip";
  config::Data config = build_config(path);

  void write(const std::vector<ZipEntry>& entries, Zip64 zip64 = Zip64::kNo) const {
    write_text(path, pack_zip(entries, zip64));
  }
  std::string find_error(const std::vector<ZipEntry>& entries) const {
    write(entries);
    return find_open_error(config);
  }
};

// Returns the samples of a split without the path of the archive: "cat/1=0".
std::string list_samples(const Dataset& set) {
  std::string text;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const std::string name = set.describe(i);
    text += concat(i == 0 ? "" : " ", name.substr(name.find(".zip: ") + 6), '=', set.label_at(i));
  }
  return text;
}

}  // namespace

TEST_CASE("data.path of a zip: the images have the pixels and labels of the unpacked folder") {
  for (const Zip64 zip64 : {Zip64::kNo, Zip64::kYes}) {
    const Archive archive;
    const std::vector<ZipEntry> entries = make_entries("", 3);
    archive.write(entries, zip64);
    const Datasets sets = open_datasets(archive.config, 1);
    CHECK(sets.classes == std::vector<std::string>{"cat", "dog"});
    CHECK(list_samples(*sets.train) ==
          "cat/1.ppm=0 cat/2.ppm=0 cat/3.ppm=0 dog/1.ppm=1 dog/2.ppm=1 dog/3.ppm=1");
    const TemporaryFolder folder;
    for (const ZipEntry& entry : entries) write_text(folder.path() / entry.name, entry.content);
    const Datasets unpacked = open_datasets(build_config(folder.path()), 1);
    REQUIRE(unpacked.train->size() == 6);
    for (std::int64_t i = 0; i < 6; ++i) {
      CHECK(load_image(*sets.train, i) == load_image(*unpacked.train, i));
    }
    CHECK(labels(*sets.train) == labels(*unpacked.train));
    CHECK(batches(*sets.train, 4) == batches(*unpacked.train, 1));
  }
}

TEST_CASE("data.path of a zip may have folders of splits, and one folder that holds all others") {
  for (const char* top : {"", "photos/", "photos-main/photos/"}) {
    CAPTURE(top);
    const Archive archive;
    std::vector<ZipEntry> entries = make_entries(concat(top, "Training/"), 3);
    for (ZipEntry& entry : make_entries(concat(top, "Testing/"), 1, 50)) entries.push_back(entry);
    entries.push_back({"__MACOSX/Training/cat/._1.ppm", "x"});
    entries.push_back({concat(top, "readme.txt"), "x"});
    entries.push_back({concat(top, "Training/empty/"), ""});
    archive.write(entries);
    const Datasets sets = open_datasets(archive.config, 1);
    CHECK(sets.train->size() == 6);
    CHECK(list_samples(*sets.test) ==
          concat(top, "Testing/cat/1.ppm=0 ", top, "Testing/dog/1.ppm=1"));
    config::Data test = archive.config;
    test.path = "";
    test.train.path = (archive.path / top / "Training").string();
    CHECK(open_datasets(test, 1).train->size() == 6);
  }
  const Archive classes;
  classes.write(make_entries("photos/", 2));
  CHECK(list_samples(*open_datasets(classes.config, 1).train) ==
        "photos/cat/1.ppm=0 photos/cat/2.ppm=0 photos/dog/1.ppm=1 photos/dog/2.ppm=1");
}

TEST_CASE("data.path of a zip: a note reports a data set with a copy of itself inside") {
  const Archive archive;
  std::vector<ZipEntry> entries = make_entries("", 2);
  for (const ZipEntry& entry : make_entries("photos/", 3, 50)) entries.push_back(entry);
  archive.write(entries);
  const Datasets sets = open_datasets(archive.config, 1);
  const std::vector<std::string> notes = sets.train_files->damage().left_aside;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        concat(archive.path.string(),
               ": 6 images lie in the folder of one class inside the folder of "
               "another, and get the label of the outer one: photos/cat, photos/dog; if this "
               "is a copy of the data set inside itself, move it away"));
}

TEST_CASE("data.train.path and data.test.path: each split is an archive of its own") {
  Archive archive;
  archive.write(make_entries("train/", 2));
  const fs::path test = archive.files.path() / "TEST.ZIP";
  write_text(test, pack_zip(make_entries("", 1, 50)));
  archive.config.path = "";
  archive.config.train.path = archive.path.string();
  archive.config.test.path = test.string();
  const Datasets sets = open_datasets(archive.config, 1);
  CHECK(sets.train->size() == 4);
  CHECK(sets.test->size() == 2);
}

TEST_CASE("check_images: a zip is checked as a folder, with the names of entries") {
  const Archive archive;
  std::vector<ZipEntry> entries = make_entries("", 2);
  entries.push_back({"cat/7.ppm", entries[0].content, 8});  // dog/2
  entries.push_back({"cat/8.ppm", "P6 9 9 255\nshort"});
  entries.push_back({"cat\\9.ppm", make_image(99)});
  archive.write(entries);
  const DataCheck check = check_images(archive.config, 1, "");
  REQUIRE(check.splits.size() == 1);
  CHECK(check.splits[0].per_class == std::vector<std::int64_t>{5, 2});
  REQUIRE(check.splits[0].damaged.size() == 1);
  CHECK(contains(check.splits[0].damaged[0], "photos.zip: cat/8.ppm: "));
  CHECK(check.conflicts == 1);
  REQUIRE(check.duplicates.size() == 1);
  CHECK(check.duplicates[0] == concat(archive.path.string(), ": cat/7.ppm (train) = ",
                                      archive.path.string(), ": dog/2.ppm (train), another class"));
  Archive dropping;
  dropping.write(entries);
  dropping.config.on_conflict = config::OnConflict::kDrop;
  CHECK(list_samples(*open_datasets(dropping.config, 1).train) ==
        "cat/1.ppm=0 cat/2.ppm=0 cat/8.ppm=0 cat/9.ppm=0 dog/1.ppm=1");
}

TEST_CASE(
    "data.path of a zip: a damaged entry is named when it is read, and data.on_error decides") {
  Archive archive;
  const std::vector<ZipEntry> entries = make_entries("", 10);
  std::string zip = pack_zip(entries);
  const std::string& damaged = entries[11].content;  // cat/9.ppm, stored
  const std::size_t place = zip.find(damaged);
  REQUIRE(place != std::string::npos);
  zip[place + damaged.size() - 1] ^= 1;
  write_text(archive.path, zip);
  const DataCheck check = check_images(archive.config, 1, "");
  REQUIRE(check.splits[0].damaged.size() == 1);
  CHECK(contains(check.splits[0].damaged[0], "photos.zip: cat/9.ppm: its checksum does not match"));
  const Datasets sets = open_datasets(archive.config, 1);
  CHECK_THROWS_WITH_AS(load_image(*sets.train, 9), doctest::Contains("photos.zip: cat/9.ppm: "),
                       DataError);
  archive.config.on_error = config::OnError::kSkip;
  archive.config.error_budget = 1;
  archive.config.cache_dir = (archive.files.path() / "cache").string();
  CHECK(open_datasets(archive.config, 1).train->size() == 19);
}

TEST_CASE("data.path of a zip: entries that cannot be read are named") {
  const Archive archive;
  std::vector<ZipEntry> entries = make_entries("", 2);
  entries[3].flags = 1;
  std::string error = archive.find_error(entries);
  CHECK(contains(error, "photos.zip: cat/1.ppm: is encrypted; unpack the archive"));
  entries[3].flags = 0;
  entries[3].method = 12;
  error = archive.find_error(entries);
  CHECK(contains(error, "photos.zip: cat/1.ppm: is compressed with zip method 12"));
  entries[3].method = 0;
  for (const char* name :
       {"../cat/1.ppm", "cat/../../1.ppm", "/cat/1.ppm", "C:/cat/1.ppm", "..\\cat\\1.ppm"}) {
    CAPTURE(name);
    entries[3].name = name;
    CHECK(contains(archive.find_error(entries), "whose name leads out of the archive"));
  }
  entries[3].name = entries[2].name;
  CHECK(contains(archive.find_error(entries), "contains the entry cat/2.ppm twice"));
}

TEST_CASE("data.path of a zip: names of entries have at most 4096 bytes and 128 folders") {
  const Archive archive;
  std::vector<ZipEntry> entries = make_entries("", 2);
  const auto make_name = [](int folders, std::size_t bytes) {
    std::string name = "cat/";
    for (int i = 1; i < folders; ++i) name += "x/";
    name += std::string(bytes - name.size() - 4, 'y') + ".ppm";
    return name;
  };
  for (const std::string& name : {make_name(128, 270), make_name(1, 4096)}) {
    CAPTURE(name.size());
    entries[3].name = name;
    archive.write(entries);
    const Datasets sets = open_datasets(archive.config, 1);
    CHECK(sets.classes == std::vector<std::string>{"cat", "dog"});
    CHECK(sets.train->size() == 4);
  }
  entries[3].name = make_name(129, 270);
  CHECK(contains(archive.find_error(entries),
                 concat("photos.zip: contains the entry '", entries[3].name.substr(0, 40),
                        "...', whose name is too long: 270 bytes (at most 4096) and 129 folders "
                        "(at most 128); pack the images again")));
  entries[3].name = make_name(1, 4097);
  CHECK(contains(archive.find_error(entries), "4097 bytes (at most 4096) and 1 folders"));
  entries[3].name = "cat" + std::string(200, '\\') + "1.ppm";  // Windows separates folders so
  CHECK(contains(archive.find_error(entries), "208 bytes (at most 4096) and 200 folders"));
}

TEST_CASE(
    "data.path of a zip: a file that is not an archive, is cut or has no class folders is an "
    "error") {
  const Archive archive;
  write_text(archive.path, "no archive");
  CHECK(contains(find_open_error(archive.config), "photos.zip: is not a zip archive"));
  write_text(archive.path, "");
  CHECK(contains(find_open_error(archive.config), "photos.zip: is empty"));
  const std::string whole = pack_zip(make_entries("", 3));
  write_text(archive.path, whole.substr(0, whole.size() - 30));
  CHECK(contains(find_open_error(archive.config), "is not a zip archive or is truncated"));
  CHECK(contains(archive.find_error({{"1.ppm", make_image(1)}, {"2.ppm", make_image(2)}}),
                 "photos.zip: contains no folders that name classes of images"));
  std::string other = archive.find_error(make_entries("", 1));
  CHECK(other.empty());
  config::Data config = archive.config;
  config.classes = {"cat", "fox"};
  CHECK(contains(find_open_error(config), "photos.zip: dog: is not a class"));
  config.path = "";
  config.train.path = (archive.path / "birds").string();
  CHECK(contains(find_open_error(config), "has no folder 'birds'; its folders are cat, dog"));
}

TEST_CASE("data.path of a zip: a directory with fewer entries than its end states is an error") {
  const Archive archive;
  std::string zip = pack_zip(make_entries("", 3));
  const std::size_t second = zip.find("PK\1\2", zip.find("PK\1\2") + 4);
  zip[second + 2] = 3;
  write_text(archive.path, zip);
  CHECK(contains(find_open_error(archive.config),
                 "is a damaged zip archive: its directory has 1 of 6 entries"));
}

TEST_CASE("data.relabel and data.group_by: the names of entries are paths") {
  Archive archive;
  archive.write(make_entries("photos/", 2));
  archive.config.relabel = (archive.files.path() / "fixes.csv").string();
  write_text(archive.config.relabel,
             concat("path,label\nphotos/cat/1.ppm,dog\n", archive.path.string(),
                    ": photos/dog/2.ppm,\ncat/2.ppm,cat\n"));
  archive.config.group_by = "/(\\d)\\.ppm";
  const Datasets sets = open_datasets(archive.config, 1);
  CHECK(list_samples(*sets.train) == "photos/cat/1.ppm=1 photos/cat/2.ppm=0 photos/dog/1.ppm=1");
  CHECK(sets.train->group_at(1) == "2");
}

TEST_CASE(
    "image_files: a zip of images lists them for predictions, an archive of arrays does not") {
  const Archive archive;
  archive.write(make_entries("", 1));
  CHECK(leads_to_image_files(archive.path.string()));
  const std::vector<std::string> files = image_files(archive.path.string());
  REQUIRE(files.size() == 2);
  CHECK(files[0] == (archive.path / "cat/1.ppm").string());
  config::Data config = archive.config;
  const Images images = open_image_files(config, files, false);
  const Datasets sets = open_datasets(archive.config, 1);
  CHECK(load_image(*images.dataset, 1) == load_image(*sets.train, 1));
  CHECK(contains(images.dataset->describe(0), "photos.zip: cat/1.ppm"));
  archive.write({{"x.npy", "x"}});
  CHECK(!leads_to_image_files(archive.path.string()));
}

TEST_CASE("image_files takes a folder or an image in a zip") {
  const Archive archive;
  archive.write(make_entries("test/", 2));
  for (const char* folder : {"test/dog", "test/dog/", "./test/dog"}) {
    CAPTURE(folder);
    const std::string path = (archive.path / folder).string();
    CHECK(leads_to_image_files(path));
    CHECK(image_files(path) ==
          std::vector<std::string>{(archive.path / "test/dog/1.ppm").string(),
                                   (archive.path / "test/dog/2.ppm").string()});
  }
  const std::string image = (archive.path / "test/dog/2.ppm").string();
  CHECK(leads_to_image_files(image));
  CHECK(image_files(image) == std::vector<std::string>{image});
  CHECK(image_size(image).width == 9);
  const std::string missing = (archive.path / "train").string();
  CHECK(leads_to_image_files(missing));
  CHECK_THROWS_WITH_AS(image_files(missing),
                       doctest::Contains("photos.zip: has no folder 'train'; its folders are test"),
                       DataError);
  CHECK(!leads_to_image_files((archive.files.path() / "other.zip/test").string()));
}

TEST_CASE("data.path of a zip: other files and folders are counted below the folder that is read") {
  Archive archive;
  std::vector<ZipEntry> entries = make_entries("train/", 2);
  for (ZipEntry& entry : make_entries("test/", 1, 50)) entries.push_back(entry);
  for (const char* name :
       {"readme.txt", "train/list.csv", "train/cat/b.txt", "train/cat/a.txt", "train/dog/in/c.txt",
        "train/cat/.DS_Store", "train/docs/d.txt", "test/dog/e.txt", "train/category/f.txt"}) {
    entries.push_back({name, "x"});
  }
  archive.write(entries);
  archive.config.classes = {"cat", "dog"};
  config::SplitFiles split;
  split.path = (archive.path / "train").string();
  const ImageList list = list_folder(split, archive.config.classes);
  CHECK(list.files.size() == 4);
  const std::string place = archive.path.string() + ": train: ";
  CHECK(list.notes ==
        std::vector{
            place + "2 folders are not used as classes, because they contain no images or "
                    "were made by a system: category, docs",
            place + "3 files are left aside, because they are not images, e.g. train/cat/a.txt"});
  CHECK(list.left_aside == std::vector{list.notes[0]});
  split.path = (archive.path / "test").string();
  CHECK(
      list_folder(split, archive.config.classes).notes ==
      std::vector{archive.path.string() +
                  ": test: 1 file is left aside, because it is not an image, e.g. test/dog/e.txt"});
}

TEST_CASE(
    "data.path of a zip: an archive that is cut or replaced after it was listed is an error") {
  const Archive archive;
  archive.write(make_entries("", 20));
  const Datasets sets = open_datasets(archive.config, 1);
  const Bytes before = load_image(*sets.train, 0);
  fs::resize_file(archive.path, 3000);
  CHECK_THROWS_WITH_AS(
      load_image(*sets.train, 0),
      doctest::Contains("photos.zip: cat/1.ppm: the file became shorter while it was read"),
      DataError);
  archive.write(make_entries("other/", 20, 77));
  CHECK_THROWS_WITH_AS(load_image(*sets.train, 0),
                       doctest::Contains("photos.zip: cat/1.ppm: its checksum does not match"),
                       DataError);
  archive.write(make_entries("", 20));
  CHECK(load_image(*sets.train, 0) == before);
}

TEST_CASE("data.path of a zip: another program cuts and writes the archive while it is listed") {
  const Archive archive;
  const std::string whole = pack_zip(make_entries("", 40));
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    for (std::size_t size = 1; !is_done; size = (size * 7919 + 13) % whole.size()) {
      write_text(archive.path, whole.substr(0, size));
      fs::resize_file(archive.path, size / 2);
      write_text(archive.path, whole);
    }
  });
  std::set<std::string> wrong;
  for (int i = 0; i < 500; ++i) {
    const std::string error = find_open_error(archive.config);
    if (!error.empty() && !contains(error, "photos.zip")) wrong.insert(error);
  }
  is_done = true;
  writer.join();
  CHECK(wrong == std::set<std::string>{});
}

TEST_CASE("data.path of a zip: several threads read the same archive") {
  const Archive archive;
  archive.write(make_entries("", 20));
  const Datasets sets = open_datasets(archive.config, 1);
  std::vector<Bytes> wanted;
  for (std::int64_t i = 0; i < sets.train->size(); ++i)
    wanted.push_back(load_image(*sets.train, i));
  std::atomic<int> differences = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < sets.train->size(); ++i) {
        if (load_image(*sets.train, i) != wanted[static_cast<std::size_t>(i)]) ++differences;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(differences == 0);
}

TEST_CASE("data.train.path and data.test.path accept CIFAR-10 as JPEGs in two archives") {
  const char* const shared = std::getenv("TRAINER_SHARED_DATA");
  const fs::path folder = fs::path(shared == nullptr ? "" : shared) / "cifar10_jpeg";
  if (!fs::exists(folder / "train.zip")) {
    TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with cifar10_jpeg");
  }
  config::Data config = build_config("");
  config.resize = {32, 32};
  config.train.path = (folder / "train.zip").string();
  config.test.path = (folder / "test.zip").string();
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.classes.size() == 10);
  CHECK(sets.classes[0] == "airplane");
  CHECK(sets.train->size() == 50'000);
  CHECK(sets.test->size() == 10'000);
  const std::vector<std::int32_t> all = list_labels(*sets.test);
  for (std::int32_t label = 0; label < 10; ++label) {
    CHECK(std::count(all.begin(), all.end(), label) == 1000);
  }
  CHECK(sets.test->describe(9'999) == (folder / "test.zip: truck/0999.jpg").string());
  const Bytes image = load_image(*sets.test, 9'999);
  CHECK(std::set<std::uint8_t>(image.begin(), image.end()).size() > 20);
}

}  // namespace trainer::data::zip_folder_test
