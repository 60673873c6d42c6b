// Files with many encoded images and their labels: tar shards of WebDataset, TFRecord.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer::data {

struct ShardSample {
  std::string name;                    // the name in the shard, for messages
  std::string label;                   // a number or a name
  std::int64_t offset = 0, bytes = 0;  // the place of the encoded image
};

// Returns the samples of a tar file: an image and a .cls file (a class as text) or a .json file
// with "label" or "cls", which share their names without the last ending, as 0.05.jpg and 0.05.cls,
// or else up to the first dot of the image's name, as 0.left.jpg and 0.cls. Reads the headers and
// the small files only. Reads ustar, GNU and pax archives that are not compressed. Throws
// DataError.
std::vector<ShardSample> read_tar_shard(const std::filesystem::path& path);

// Returns the records of a TFRecord file that is not compressed. Each is a tf.train.Example with
// image/encoded (or image, image_raw, encoded) and image/class/label (or label, class,
// image/class/text). Reads the whole file and checks both checksums of each record. Throws
// DataError.
std::vector<ShardSample> read_tfrecord(const std::filesystem::path& path);

// Returns whether a file has the name of a shard.
bool is_shard_name(const std::string& name, bool tar);
// Returns the shards in a folder, sorted, or the file itself that `path` names. Throws DataError
// if there are none.
std::vector<std::filesystem::path> shard_files(const std::filesystem::path& path, bool tar);

}  // namespace trainer::data
