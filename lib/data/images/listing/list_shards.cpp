#include "data/images/listing/list_shards.h"

#include "base/error.h"
#include "base/threads/parallel.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

struct Shard {
  std::string path;
  std::vector<ShardSample> samples;
};

// Returns the samples of all shards of a split, in the order of their names.
std::vector<Shard> read_shards(const config::Data& data, const config::SplitFiles& split,
                               const Progress& progress) {
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
    progress.advance();
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

LabelledList list_shards(const config::Data& data, const config::SplitFiles& split,
                         const Progress& progress) {
  LabelledList result;
  result.list.source = split.glob.empty() ? split.path : split.glob;
  for (Shard& shard : read_shards(data, split, progress)) {
    for (ShardSample& sample : shard.samples) {
      ListedFile file{shard.path};
      file.offset = sample.offset;
      file.bytes = sample.bytes;
      file.name = std::move(sample.name);
      result.list.files.push_back(std::move(file));
      result.labels.push_back(std::move(sample.label));
    }
  }
  return result;
}

}  // namespace trainer::data
