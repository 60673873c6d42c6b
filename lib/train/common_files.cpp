#include "train/common_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/partition.h"
#include "base/text.h"
#include "data/common_data.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kMaxRanges = 1024;
constexpr std::int64_t kSpreadFiles = 256, kMaxModifiedFiles = 1024;
constexpr std::int64_t kBlockBytes = 64 << 10;

// The checksum of a file that cannot be read. Its owner differs from ranks that can read it.
constexpr std::uint64_t kUnreadable = ~std::uint64_t{0};

// Returns the file with a sample: the file of an image, or the shard in "shard: name"; "" if there
// is none.
std::string find_file(const data::Dataset& samples, std::int64_t index) {
  const std::string text = samples.describe(index);
  struct stat status {};
  for (std::size_t end = text.size(); end != std::string::npos && end > 0;
       end = text.rfind(": ", end - 1)) {
    const std::string path = text.substr(0, end);
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) return path;
  }
  return "";
}

// Returns a checksum of the modification times of the files of a range of samples.
std::uint64_t times_checksum(const data::Dataset& samples, const Partition& range) {
  std::uint64_t sum = 0xCBF29CE484222325u;
  std::string last;
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    // The samples of a shard follow each other.
    if (!last.empty() && samples.describe(i).starts_with(last + ": ")) continue;
    std::string file = find_file(samples, i);
    if (file.empty()) continue;
    struct stat status {};
    ::stat(file.c_str(), &status);
    for (const std::int64_t part :
         {std::int64_t{status.st_mtim.tv_sec}, std::int64_t{status.st_mtim.tv_nsec}}) {
      sum = (sum ^ static_cast<std::uint64_t>(part)) * 0x100000001B3u;
    }
    last = std::move(file);
  }
  return sum;
}

// Returns a checksum of the size and of the first and last blocks of the file of a sample.
std::uint64_t content_checksum(const data::Dataset& samples, std::int64_t index) {
  const std::string path = find_file(samples, index);
  const int file = path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return kUnreadable;
  struct stat status {};
  ::fstat(file, &status);
  std::vector<std::uint8_t> block(kBlockBytes);
  std::uint32_t crc = 0;
  bool is_read = true;
  for (const std::int64_t offset :
       {std::int64_t{0}, std::max<std::int64_t>(0, status.st_size - kBlockBytes)}) {
    const ssize_t got = ::pread(file, block.data(), block.size(), offset);
    is_read = is_read && got >= 0;
    if (got > 0) crc = crc32c({block.data(), static_cast<std::size_t>(got)}, crc);
  }
  ::close(file);
  if (!is_read) return kUnreadable;
  return static_cast<std::uint64_t>(status.st_size) << 32 | crc;
}

// Returns up to `count` of `all`, spread over them.
std::vector<std::int64_t> spread(const std::vector<std::int64_t>& all, std::int64_t count) {
  const auto size = std::ssize(all);
  if (size <= count) return all;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    chosen.push_back(all[i * size / count]);
  }
  return chosen;
}

// Returns the numbers of all ranks in rank order. Collective.
std::vector<std::uint64_t> gather(ProcessGroup& group, const std::vector<std::uint64_t>& values) {
  std::vector<std::uint64_t> all(values.size() * group.size());
  group.control()->all_gather(std::as_bytes(std::span(values)),
                              std::as_writable_bytes(std::span(all)));
  return all;
}

// Returns when all ranks have what the last gather() returned. A rank that throws before that would
// replace the error of the other ranks.
void wait_for_all_ranks(ProcessGroup& group) {
  try {
    group.control()->barrier();
  } catch (const PeerError&) {
    // Another rank has reached the barrier and throws the same error as this one.
  }
}

// Returns the first rank whose number `i` is not rank 0's; 0 if there is none.
std::size_t find_difference(const std::vector<std::uint64_t>& all, std::size_t numbers,
                            std::size_t i) {
  for (std::size_t at = numbers; at < all.size(); at += numbers) {
    if (all[at + i] != all[i]) return at / numbers;
  }
  return 0;
}

// A split that all ranks have.
struct SharedSplit {
  Split split;
  const data::Dataset& samples;
  // The number of ranges of neighbouring samples, whose modification times are compared together.
  std::int64_t ranges;
};

// A sample whose file is compared.
struct Chosen {
  const SharedSplit& split;
  std::int64_t index;
};

// Returns the samples of a split to compare. `differs(i)` returns whether the modification times of
// its range i differ between ranks.
template <class Differs>
std::vector<std::int64_t> choose(const SharedSplit& split, const Differs& differs) {
  std::vector<std::int64_t> every, modified;
  for (std::int64_t i = 0; i < split.ranges; ++i) {
    const Partition part = partition(split.samples.size(), split.ranges, i);
    const bool may_be_modified = differs(i);
    for (std::int64_t k = part.first; k < part.first + part.count; ++k) {
      every.push_back(k);
      if (may_be_modified) modified.push_back(k);
    }
  }
  std::vector<std::int64_t> chosen = spread(modified, kMaxModifiedFiles);
  for (const std::int64_t index : spread(every, kSpreadFiles)) chosen.push_back(index);
  return chosen;
}

void compare_files(ProcessGroup& group, const std::vector<SharedSplit>& splits) {
  std::vector<std::uint64_t> times;
  group.prepare([&] {
    for (const SharedSplit& split : splits) {
      for (std::int64_t i = 0; i < split.ranges; ++i) {
        const Partition part = partition(split.samples.size(), split.ranges, i);
        times.push_back(times_checksum(split.samples, part));
      }
    }
  });
  const std::vector<std::uint64_t> all_times = gather(group, times);
  std::vector<Chosen> chosen;
  std::int64_t first = 0;  // the first range of a split among the ranges of all splits
  for (const SharedSplit& split : splits) {
    for (const std::int64_t index : choose(split, [&](std::int64_t i) {
           return find_difference(all_times, times.size(), first + i) > 0;
         })) {
      chosen.push_back({split, index});
    }
    first += split.ranges;
  }
  std::vector<std::uint64_t> contents;
  group.prepare([&] {
    for (const Chosen& file : chosen) {
      contents.push_back(content_checksum(file.split.samples, file.index));
    }
  });
  const std::vector<std::uint64_t> all_contents = gather(group, contents);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t rank = find_difference(all_contents, contents.size(), i);
    if (rank == 0) continue;
    wait_for_all_ranks(group);
    const Chosen& file = chosen[i];
    if (all_contents[i] == kUnreadable) {
      throw ConfigError({}, concat("rank 0 cannot read the file ",
                                   printable(file.split.samples.describe(file.index)),
                                   ", which other ranks can; give all ranks the same files"));
    }
    const bool is_unreadable = all_contents[rank * contents.size() + i] == kUnreadable;
    throw ConfigError(
        {}, concat(group.describe(static_cast<int>(rank)), " differs from rank 0 in the file ",
                   printable(file.split.samples.describe(file.index)), " (sample ", file.index,
                   " of the ", to_string(file.split.split),
                   " split): ", is_unreadable ? "it cannot be read" : "its content is another one",
                   "; give all ranks the same files"));
  }
}

}  // namespace

void agree_on_data(ProcessGroup& group, const config::Config& config, const data::Datasets& data,
                   const std::string& environment) {
  if (group.size() == 1) return;
  std::string common;
  group.prepare([&] { common = data::common_data(data, config.parallel.evaluate); });
  group.agree({{"data", common}, {"environment of NCCL", environment}});
  // The processes compare all bytes of arrays.
  if (!config::is_image_format(config.data.format)) return;
  std::vector<SharedSplit> splits;
  for (const Split split : kSplits) {
    const bool is_shared = split == Split::kTrain || config.parallel.evaluate;
    const data::Dataset* const samples = data.dataset(split).get();
    if (!is_shared || samples == nullptr) continue;
    splits.push_back({split, *samples, std::min(samples->size(), kMaxRanges)});
  }
  compare_files(group, splits);
}

}  // namespace trainer::train
