#include "data/images/listing/list_shards.h"

#include "base/error.h"
#include "base/threads/parallel.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/labels.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

struct Shard {
  std::string path;
  std::vector<ShardSample> samples;
};

// The samples of all shards of a split, in the order of their names.
std::vector<Shard> read_shards(const config::Data& data, const config::Split& split) {
  const bool tar = data.format == config::DataFormat::kWebDataset;
  std::vector<fs::path> files;
  if (split.glob.empty()) {
    files = shard_files(split.path, tar);
  } else {
    for (const std::string& path : glob_files(split)) files.emplace_back(path);
  }
  std::vector<Shard> shards(files.size());
  parallel_for(files.size(), [&](std::size_t i) {
    shards[i] = {files[i].string(), tar ? read_tar_shard(files[i]) : read_tfrecord(files[i])};
  });
  std::size_t samples = 0;
  for (const Shard& shard : shards) {
    samples += shard.samples.size();
    for (const ShardSample& sample : shard.samples) {
      if (!sample.label.empty()) continue;
      throw DataError(concat(shard.path, ": ", sample.name),
                      tar ? "has no class: there is no .cls or .json file of its name with one"
                          : "has no class: features image/class/label, label, class and "
                            "image/class/text are read");
    }
  }
  if (samples == 0) throw DataError(files[0].string(), "holds no images");
  return shards;
}

}  // namespace

bool holds_shards(const config::Data& data) {
  return data.format == config::DataFormat::kTfRecord ||
         data.format == config::DataFormat::kWebDataset;
}

ImageList list_shards(const config::Data& data, const config::Split& split,
                      const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.glob.empty() ? split.path : split.glob;
  const auto indices = indices_of(classes);
  for (const Shard& shard : read_shards(data, split)) {
    for (const ShardSample& sample : shard.samples) {
      const auto fail = [&](const std::string& what) {
        throw DataError(concat(shard.path, ": ", sample.name), what);
      };
      ListedFile file{shard.path, class_of(sample.label, indices, classes, fail)};
      file.offset = sample.offset;
      file.bytes = sample.bytes;
      file.name = sample.name;
      result.files.push_back(std::move(file));
    }
  }
  return result;
}

std::vector<std::string> shard_classes(const config::Data& data, const config::Split& split) {
  std::vector<std::string> labels, places;
  for (const Shard& shard : read_shards(data, split)) {
    for (const ShardSample& sample : shard.samples) {
      labels.push_back(sample.label);
      places.push_back(concat(shard.path, ": ", sample.name));
    }
  }
  return classes_of(
      labels, [&](std::size_t i, const std::string& what) { throw DataError(places[i], what); });
}

}  // namespace trainer::data
