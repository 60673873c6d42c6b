#include "data/images/value_range.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace trainer::data {
namespace {

// `auto` reads more files, because values above those found are cut. All files would take as long
// as an epoch.
constexpr std::int64_t kFilesOfAuto = 64, kFilesOfReport = 16;
// A report is not worth the time that several of the largest images take.
constexpr std::int64_t kPixelsOfReport = std::int64_t{1} << 27;

}  // namespace

MeasuredValues measure_values(const ImageList& list, const config::Data& data,
                              std::int64_t max_files, std::int64_t max_pixels) {
  const ImageLimits limits{data.max_pixels, data.max_file_size};
  const auto all = std::ssize(list.files);
  const std::int64_t count = std::min(max_files, all);
  const auto channels = static_cast<int>(data.channels.value_or(3));
  MeasuredValues measured;
  std::vector<std::uint8_t> bytes;
  std::int64_t pixels = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const ListedFile& listed = list.files[i * all / count];
    try {
      read_image_file(listed.stored(), limits, bytes);
      ImageFile file(bytes, listed.path, limits);
      ++measured.files;
      if (file.info().bits != 16) continue;
      const std::int64_t file_pixels = std::int64_t{file.info().width} * file.info().height;
      if (measured.files_16 > 0 && file_pixels > max_pixels - pixels) continue;
      pixels += file_pixels;
      measured.max = std::max(measured.max, file.find_max_value(channels));
      ++measured.files_16;
    } catch (const DataError&) {
      continue;  // data.on_error decides when it is read for training
    }
  }
  return measured;
}

std::optional<config::ValueRange> choose_range(const MeasuredValues& measured) {
  if (measured.files_16 == 0) return std::nullopt;
  std::int64_t high = 255;
  while (high < measured.max) high = 2 * high + 1;
  return config::ValueRange{false, 0, high};
}

Notice resolve_range(const ImageList& train, config::Data& data) {
  const bool is_automatic = data.range && data.range->is_automatic;
  const MeasuredValues measured =
      is_automatic
          ? measure_values(train, data, kFilesOfAuto, std::numeric_limits<std::int64_t>::max())
          : measure_values(train, data, kFilesOfReport, kPixelsOfReport);
  const std::optional<config::ValueRange> chosen = choose_range(measured);
  if (is_automatic) data.range = chosen;
  if (!chosen) return "";
  const std::string found = concat("the largest value of ", measured.files_16, " measured 16-bit ",
                                   measured.files_16 == 1 ? "file" : "files", " is ", measured.max);
  if (data.range) {
    return Notice::note(concat("data.range: ", is_automatic ? "auto takes " : "", '[',
                               data.range->low, ", ", data.range->high, "]; ", found));
  }
  const int levels = measured.max / 256 + 1;
  if (levels > 128) {
    return Notice::note(concat("16-bit files: the range [0, 65535] is used; ", found));
  }
  return concat("16-bit files: the range [0, 65535] is used, but ", found, ", so that ", levels,
                levels == 1 ? " of 256 grey levels remains" : " of 256 grey levels remain",
                "; give data.range: [0, ", chosen->high, "] or data.range: auto");
}

}  // namespace trainer::data
