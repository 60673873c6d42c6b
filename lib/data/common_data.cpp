#include "base/error.h"
#include "base/files.h"
#include "data/data.h"

namespace trainer::data {
namespace {

std::string label_checksum(const Dataset& dataset) {
  std::uint32_t crc = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int32_t label = dataset.label_of(i);
    crc = crc32c({reinterpret_cast<const std::uint8_t*>(&label), sizeof label}, crc);
  }
  return concat("crc32c ", std::hex, crc);
}

std::string lines_of(const char* split, const Dataset* dataset) {
  if (dataset == nullptr) return concat(split, " samples: none\n");
  return concat(split, " samples: ", dataset->size(), "\n", split,
                " labels: ", label_checksum(*dataset), "\n", split,
                " images: ", dataset->common_content(), "\n");
}

}  // namespace

std::string common_data(const Datasets& data, bool evaluation) {
  std::string text = "classes:";
  for (const std::string& name : data.classes) text += ' ' + name;
  text += '\n' + lines_of("train", data.train.get());
  if (!evaluation) return text;
  return text + lines_of("validation", data.validation.get()) + lines_of("test", data.test.get());
}

}  // namespace trainer::data
