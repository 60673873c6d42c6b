#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "base/files/files.h"
#include "data/images/image_files.h"
#include "data/open.h"
#include "data/samples/splits.h"
#include "data/samples/weights.h"

namespace trainer::data::image_dataset_test {

namespace {

template <class Op>
config::Augmentation augmentation(Op op) {
  return {op, {}};
}

}  // namespace

TEST_CASE(
    "image_folder: a folder is a class, classes are sorted or listed, and splits found by name") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 3);
  write_folder(folder.path() / "val", 1, 50);
  write_text(folder.path() / "train/cat/notes.txt", "x");
  write_text(folder.path() / "train/cat/.hidden.ppm", "x");
  config::Data config = build_config(folder.path());
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
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("cat: is not a class"),
                       DataError);
  config.classes = {"dog", "cat", "cow"};
  const Datasets without_cows = open_datasets(config, 1);
  CHECK(labels(*without_cows.train) == labels(*open_datasets(config, 1).train));
  CHECK(without_cows.train_files->damage().left_aside[0].find(
            "has no folder cow; no image of this class is in this split") != std::string::npos);
  fs::create_directories(folder.path() / "train/cow");
  CHECK(open_datasets(config, 1).train_files->damage().left_aside[0].find(
            "cow: contains no images; no image of this class is in this split") !=
        std::string::npos);
}

TEST_CASE("data.train.glob: the class is the name of the parent folder") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "all/train", 2);
  write_image(folder.path() / "all/train/dog/extra.pgm", 5, 5, 9, true);
  config::Data config = build_config("");
  config.train.path = folder.path();
  config.train.glob = "all/train/**/*.ppm";
  CHECK(open_datasets(config, 1).classes == std::vector<std::string>{"deep"});
  config.train.glob = "**/*.pgm";
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.classes == std::vector<std::string>{"dog"});
  CHECK(sets.train->size() == 1);
  // A grey file in an RGB set: three equal channels.
  const Bytes image = load_image(*sets.train, 0);
  CHECK(image[0] == image[1]);
  CHECK(image[0] == image[2]);
  config.train.glob = "*/*.png";
  CHECK_THROWS_WITH_AS(open_datasets(config, 1), doctest::Contains("matches no file"), DataError);
}

TEST_CASE("data.limit: each class keeps its share, in the order of the list") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 12);
  for (int i = 0; i < 6; ++i)
    fs::remove(folder.path() / concat("train/dog/deep/dog", 13 + i, ".ppm"));
  config::Data config = build_config(folder.path());
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

TEST_CASE(
    "image_folder: validation_split_order takes the files that Keras takes, shuffled or not") {
  const TemporaryFolder folder;
  for (const char* name : {"b/2.ppm", "b/10.ppm", "a/x.ppm", "c/0.ppm", "a/Y.ppm", "c/00.ppm",
                           "b/1.ppm", "c/1.ppm", "c/2.ppm", "a/z.ppm"}) {
    write_image(folder.path() / name, 8, 8, 1);
  }
  config::Data config = build_config(folder.path());
  config.validation_split = 0.3;
  config.validation_split_order = config::ValidationSplitOrder::kLast;
  const Datasets sets = open_datasets(config, 5);
  const auto list_names = [](const Dataset& set) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      const fs::path path = set.describe(i);
      names.push_back((path.parent_path().filename() / path.filename()).string());
    }
    return names;
  };
  // image_dataset_from_directory(shuffle=False) of Keras 3.15 lists classes and then files in the
  // order of their bytes (index_directory() in src/utils/dataset_utils.py) and takes the last
  // int(0.3 * 10).
  CHECK(list_names(*sets.train) == std::vector<std::string>{"a/Y.ppm", "a/x.ppm", "a/z.ppm",
                                                            "b/1.ppm", "b/10.ppm", "b/2.ppm",
                                                            "c/0.ppm"});
  CHECK(list_names(*sets.validation) == std::vector<std::string>{"c/00.ppm", "c/1.ppm", "c/2.ppm"});
  // With shuffle=True, seed=123 and NumPy's RandomState(123).
  config.validation_split_order = config::ValidationSplitOrder::kShuffled;
  CHECK(list_names(*open_datasets(config, 123).validation) ==
        std::vector<std::string>{"a/z.ppm", "c/0.ppm", "c/2.ppm"});
}

TEST_CASE("csv: labels may be names, numbers and quoted, and mistakes are errors with their line") {
  const TemporaryFolder folder;
  write_image(folder.path() / "a, b.ppm", 4, 4, 1);
  write_image(folder.path() / "c.ppm", 4, 4, 2);
  const fs::path csv = folder.path() / "list.csv";
  config::Data config = build_config("");
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
  CHECK(error(std::string("c.ppm,dog\nc.ppm\0.jpg,cat\n", 26)) ==
        ":2: the path 'c.ppm\\x00.jpg' holds a NUL byte; remove it");
  CHECK(error("c.ppm,\n") == ":1: has no label");
  CHECK(error("c.ppm,dog\n\"c.ppm,dog\n") == ":2: has a quote that is not closed");
  CHECK(error("") == ": holds no path,label line");
  CHECK(error("c.ppm,dog\nd.ppm,dog\n").starts_with(":2: there is no file "));
  CHECK(error("label,file\ndog,c.ppm\n").empty());
  CHECK(error("filename,class\nc.ppm,dog\n").empty());
}

TEST_CASE("augmentations are a function of seed, epoch and index, for any threads and start") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 5);
  config::Data config = build_config(folder.path());
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
  CHECK(load_image(*sets.train, 0, 0) != load_image(*sets.train, 0, 1));
  CHECK(load_image(*sets.train, 0) == load_image(*sets.train, 0));
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
  CHECK(load_image(*parts.validation, 0, 0) == load_image(*parts.validation, 0, 1));
}

TEST_CASE("timm_rand_augment: images are the same for any threads and after a start in mid-epoch") {
  const TemporaryFolder folder;
  write_folder(folder.path(), 5);
  config::Data config = build_config(folder.path());
  config.preprocess = config::PreprocessPreset::kTorch;
  config::RandomErasing erasing;
  erasing.probability = 1;
  erasing.mode = config::RandomErasing::Mode::kPixel;
  config::TimmRandAugment policy;
  policy.magnitude = 9;
  policy.magnitude_std = 0.5;
  policy.increasing = true;
  config.train.augment = {augmentation(policy), augmentation(erasing)};
  const Datasets sets = open_datasets(config, 7);
  const std::vector<Bytes> expected = batches(*sets.train, 0);
  for (const std::int64_t threads : {1, 2, 5}) CHECK(batches(*sets.train, threads) == expected);
  const std::vector<Bytes> rest = batches(*sets.train, 3, 5);
  CHECK(rest == std::vector<Bytes>(expected.begin() + 5, expected.end()));
  CHECK(batches(*open_datasets(config, 7).train, 2) == expected);
  CHECK(batches(*open_datasets(config, 8).train, 2) != expected);
  CHECK(load_image(*sets.train, 2, 0) != load_image(*sets.train, 2, 1));
  // The erased pixels follow the normalization.
  config.preprocess = config::PreprocessPreset::kScale;
  CHECK(load_image(*open_datasets(config, 7).train, 2, 0) != load_image(*sets.train, 2, 0));
}

TEST_CASE("data.cache: memory and disk give the uncached images, also in the next process") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 4);
  config::Data config = build_config(folder.path());
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

TEST_CASE("csv: a label of more than a thousand bytes is an error with its line") {
  const TemporaryFolder folder;
  write_image(folder.path() / "c.ppm", 4, 4, 2);
  config::Data config = build_config("");
  config.format = config::DataFormat::kCsv;
  config.train.path = folder.path() / "list.csv";
  write_text(config.train.path, "c.ppm,dog\nc.ppm," + std::string(1000, 'x') + "\n");
  CHECK(open_datasets(config, 1).num_classes == 2);
  write_text(config.train.path, "c.ppm,dog\nc.ppm," + std::string(1001, 'x') + "\n");
  CHECK_THROWS_WITH_AS(
      open_datasets(config, 1),
      doctest::Contains("list.csv:2: the label 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                        "xxxxx...' has 1001 bytes; the name of a class may have at "
                        "most 1000"),
      DataError);
}

TEST_CASE("image_folder: a folder name that is not UTF-8 or has a newline is an error") {
  for (const std::string name : {"caf\xe9", "two\nlines"}) {
    const TemporaryFolder folder;
    write_folder(folder.path() / "train", 1);
    write_image(folder.path() / "train" / name / "a.ppm", 8, 8, 1);
    const std::string shown = name[0] == 'c' ? "'caf\\xe9'" : "'two\\x0alines'";
    CHECK_THROWS_WITH_AS(open_datasets(build_config(folder.path()), 1),
                         doctest::Contains(("train: the folder " + shown).c_str()), DataError);
  }
}

TEST_CASE("fingerprint changes with the files and the resizing") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  config::Data config = build_config(folder.path());
  const auto print = [&] { return open_datasets(config, 1).train->fingerprint(); };
  const std::string first = print();
  CHECK(print() == first);
  config.antialias = false;
  CHECK(print() != first);
  config.antialias = true;
  write_image(folder.path() / "train/cat/more.ppm", 4, 4, 1);
  CHECK(print() != first);
}

TEST_CASE("csv: columns are found among others by usual or given names") {
  const TemporaryFolder folder;
  write_image(folder.path() / "a.ppm", 4, 4, 1);
  fs::create_directories(folder.path() / "deep");
  write_image(folder.path() / "deep/b.ppm", 4, 4, 2);
  const fs::path csv = folder.path() / "list.csv";
  config::Data config = build_config("");
  config.format = config::DataFormat::kCsv;
  config.train.path = csv;
  const auto found = [&](const std::string& text) -> std::string {
    write_text(csv, text);
    try {
      const Datasets sets = open_datasets(config, 1);
      return sets.train->describe(0).substr(folder.path().string().size() + 1) + " " +
             sets.classes[static_cast<std::size_t>(labels(*sets.train)[0])];
    } catch (const DataError& thrown) {
      return std::string(thrown.what()).substr(csv.string().size());
    }
  };
  CHECK(found("image_path,label\na.ppm,dog\n") == "a.ppm dog");
  CHECK(found("label;Image;note\ndog;a.ppm;\"x; y\"\n") == "a.ppm dog");
  CHECK(found("id_code\tdiagnosis\na.ppm\tdog\n") == "a.ppm dog");
  CHECK(found("id,photo,species\n1,a.ppm,dog\n") ==
        ":1: which of the columns id, photo, species is the image? Name it with data.csv: "
        "{image_column: NAME, label_column: NAME}");
  CHECK(found("id,file,species\n1,a.ppm,dog\n") ==
        ":1: which of the columns id, file, species is the class? Name it with data.csv: "
        "{image_column: file, label_column: NAME}");
  CHECK(found("file,label,x\na.ppm,dog\n") ==
        ":2: has 2 fields; expected 3, as the first line has");
  CHECK(found("a.ppm\n") ==
        ":1: has one field; expected path,label, or give data.csv: {separator: ...}");
  config.csv = {"photo", "species", "", "", "", "", ""};
  CHECK(found("id,photo,species\n1,a.ppm,dog\n") == "a.ppm dog");
  CHECK(found("id,picture,species\n1,a.ppm,dog\n") ==
        ":1: there is no column 'photo'; the columns are id, picture, species");
  config.csv = {"", "", "|", (folder.path() / "deep").string(), ".ppm", "", ""};
  CHECK(found("image_id|class\nb|dog\n") == "deep/b.ppm dog");
  CHECK(found("image_id|class\nb.ppm|dog\n") == "deep/b.ppm dog");
}

TEST_CASE("csv: labels with weight_column stay class indices until weigh_samples()") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"})
    write_image(folder.path() / concat(name, ".ppm"), 4, 4, 1);
  const fs::path csv = folder.path() / "list.csv";
  config::Data config = build_config("");
  config.format = config::DataFormat::kCsv;
  config.train.path = csv;
  write_text(csv, "path,label,sample_weight\na.ppm,dog,0.5\nb.ppm,cat,2\nc.ppm,dog,0\n");
  Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->spec().has_weights);
  CHECK(sets.train->spec().label_is_index());
  CHECK(sets.train->weight_at(0) == 0.5f);
  CHECK(sets.train->weight_at(1) == 2.0f);
  const std::string before = sets.train->common_content();
  const auto weighed = weigh_samples(std::move(sets.train), 2);
  CHECK(weighed->spec().label_width == 3);
  Bytes image(8 * 6 * 3);
  std::array<float, 3> row{};
  weighed->get(2, image.data(), row.data());
  CHECK(row == std::array<float, 3>{0, 1, 0});
  weighed->get(1, image.data(), row.data());
  CHECK(row == std::array<float, 3>{1, 0, 2});
  CHECK(weighed->fingerprint() != before);
  const auto error = [&](const std::string& text) -> std::string {
    write_text(csv, text);
    try {
      open_datasets(config, 1);
      return "";
    } catch (const DataError& thrown) {
      return std::string(thrown.what()).substr(csv.string().size());
    }
  };
  CHECK(error("path,label,sample_weight\na.ppm,dog,-1\n") ==
        ":2: the weight '-1' is not a number of at least 0");
  CHECK(error("path,label,sample_weight\na.ppm,dog,inf\n") ==
        ":2: the weight 'inf' is not a number of at least 0");
  CHECK(error("path,label,sample_weight\na.ppm,dog,\n") ==
        ":2: the weight '' is not a number of at least 0");
  config.csv.weight_column = "importance";
  CHECK(error("path,label,sample_weight\na.ppm,dog,1\n") ==
        ":1: there is no column 'importance'; the columns are path, label, sample_weight");
  CHECK(error("path,label,importance\na.ppm,dog,1\n").empty());
}

TEST_CASE("csv: a label number far above the number of files is an error") {
  const TemporaryFolder folder;
  write_image(folder.path() / "c.ppm", 4, 4, 2);
  config::Data config = build_config("");
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

TEST_CASE("disk cache: no image changes when a file is overwritten or truncated while in use") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 4);
  config::Data config = build_config(folder.path());
  const std::vector<Bytes> expected = batches(*open_datasets(config, 1).train, 1);
  config.cache = config::ImageCache::kDisk;
  config.cache_dir = folder.path() / "cache";
  const Datasets sets = open_datasets(config, 1);
  CHECK(batches(*sets.train, 1) == expected);
  const fs::path file = fs::directory_iterator(config.cache_dir)->path();
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  for (std::streamoff at = 0; at < size; at += 200) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at);
    stream << "garbage";
  }
  CHECK(batches(*sets.train, 1) == expected);
  CHECK(batches(*sets.train, 1) == expected);  // kept anew
  fs::resize_file(file, 100);
  CHECK(batches(*sets.train, 3) == expected);
}

}  // namespace trainer::data::image_dataset_test
