#include "backend/cuda/plans/plan_cache.h"

#include <span>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

constexpr std::string_view kFormat = "trainer cuDNN plan 1";

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

Path PlanCache::file_of(const std::string& key) const {
  Sha256 hash;
  hash.update(bytes_of(key));
  return folder_ / (hash.hex() + ".cudnn_plan");
}

// A file is three lines and the JSON: the format, the checksum of the JSON, and the other fields.
std::optional<StoredPlan> PlanCache::load(const std::string& key) const {
  if (!enabled()) return std::nullopt;
  std::string content;
  try {
    content = read_text_file(file_of(key));
  } catch (const DataError&) {
    return std::nullopt;
  }
  std::istringstream in(content);
  std::string format;
  std::uint32_t checksum = 0;
  StoredPlan plan;
  std::getline(in, format);
  in >> checksum >> plan.engine >> plan.tensor_cores >> plan.fused;
  if (!in || in.get() != '\n' || format != kFormat) return std::nullopt;
  plan.json = content.substr(static_cast<std::size_t>(in.tellg()));
  if (crc32c(bytes_of(plan.json)) != checksum) return std::nullopt;
  return plan;
}

void PlanCache::store(const std::string& key, const StoredPlan& plan) const {
  if (!enabled()) return;
  write_file_atomic(file_of(key),
                    concat(kFormat, '\n', crc32c(bytes_of(plan.json)), '\n', plan.engine, ' ',
                           plan.tensor_cores, ' ', plan.fused, '\n', plan.json));
}

}  // namespace trainer::backend::cuda
