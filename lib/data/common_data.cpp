#include "data/common_data.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"

namespace trainer::data {
namespace {

std::uint32_t checksum_labels(std::span<const std::int32_t> labels, std::uint32_t crc) {
  const std::uint64_t count = labels.size();
  crc = crc32c({reinterpret_cast<const std::uint8_t*>(&count), sizeof count}, crc);
  return crc32c({reinterpret_cast<const std::uint8_t*>(labels.data()), labels.size_bytes()}, crc);
}

std::string label_checksum(const Dataset& dataset) {
  std::uint32_t crc = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int32_t label = dataset.label_at(i);
    crc = crc32c({reinterpret_cast<const std::uint8_t*>(&label), sizeof label}, crc);
    if (!dataset.spec().is_multi_label()) continue;
    const LabelSet labels = dataset.label_set_at(i);
    crc = checksum_labels(labels.unknown, checksum_labels(labels.present, crc));
  }
  return concat("crc32c ", to_hex(crc));
}

std::string describe_split(const Datasets& data, Split which) {
  const Dataset* const dataset = data.dataset(which).get();
  const std::string split = to_string(which);
  if (dataset == nullptr) return concat(split, " samples: none\n");
  return concat(split, " samples: ", dataset->size(), "\n", split,
                " labels: ", label_checksum(*dataset), "\n", split,
                " images: ", dataset->common_content(), "\n");
}

}  // namespace

std::string common_data(const Datasets& data, bool evaluation) {
  std::string text = "classes:";
  for (const std::string& name : data.classes) text += ' ' + printable(name);
  text += '\n' + describe_split(data, Split::kTrain);
  if (!evaluation) return text;
  return text + describe_split(data, Split::kValidation) + describe_split(data, Split::kTest);
}

}  // namespace trainer::data
