#include "train/common_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/common_data.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kFilesPerSplit = 256;
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

// Returns a checksum of the size and of the first and last blocks of the file of a sample.
std::uint64_t content_checksum(const data::Dataset& samples, std::int64_t index) {
  const std::string path = find_file(samples, index);
  const Descriptor file(path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return kUnreadable;
  struct stat status {};
  ::fstat(file.get(), &status);
  std::vector<std::uint8_t> block(kBlockBytes);
  std::uint32_t crc = 0;
  for (const std::int64_t offset :
       {std::int64_t{0}, std::max<std::int64_t>(0, status.st_size - kBlockBytes)}) {
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), offset);
    if (got < 0) return kUnreadable;
    crc = crc32c({block.data(), static_cast<std::size_t>(got)}, crc);
  }
  return static_cast<std::uint64_t>(status.st_size) << 32 | crc;
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

// A sample whose file is compared.
struct ComparedSample {
  Split split;
  const data::Dataset& samples;
  std::int64_t index;
};

void compare_files(ProcessGroup& group, const std::vector<ComparedSample>& compared) {
  std::vector<std::uint64_t> contents;
  group.prepare([&] {
    for (const ComparedSample& sample : compared) {
      contents.push_back(content_checksum(sample.samples, sample.index));
    }
  });
  const std::vector<std::uint64_t> all_contents = gather(group, contents);
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const std::size_t rank = find_difference(all_contents, contents.size(), i);
    if (rank == 0) continue;
    wait_for_all_ranks(group);
    const ComparedSample& sample = compared[i];
    if (all_contents[i] == kUnreadable) {
      throw ConfigError({}, "rank 0 cannot read the file ",
                        printable(sample.samples.describe(sample.index)),
                        ", which other ranks can; give all ranks the same files");
    }
    const bool is_unreadable = all_contents[rank * contents.size() + i] == kUnreadable;
    throw ConfigError(
        {}, group.describe(static_cast<int>(rank)), " differs from rank 0 in the file ",
        printable(sample.samples.describe(sample.index)), " (sample ", sample.index, " of the ",
        to_string(sample.split),
        " split): ", is_unreadable ? "it cannot be read" : "its content is another one",
        "; give all ranks the same files");
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
  std::vector<ComparedSample> compared;
  for (const Split split : kSplits) {
    const bool is_shared = split == Split::kTrain || config.parallel.evaluate;
    const data::Dataset* const samples = data.dataset(split).get();
    if (!is_shared || samples == nullptr) continue;
    const std::int64_t size = samples->size(), count = std::min(size, kFilesPerSplit);
    for (std::int64_t i = 0; i < count; ++i) {
      compared.push_back({split, *samples, i * size / count});
    }
  }
  compare_files(group, compared);
}

}  // namespace trainer::train
