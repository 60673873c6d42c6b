#include "backend/cuda/plans/plan_cache.h"

#include <filesystem>
#include <span>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

constexpr std::string_view kFormat = "trainer CUDA plan 2";

std::span<const std::uint8_t> to_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A file is the format, the checksum of what follows the third line and the length of the key, a
// line each, then the key and the plan. Returns why it is not the key's; "" when `plan` is set.
std::string read_plan(const std::string& content, const std::string& key, std::string& plan) {
  std::istringstream in(content);
  std::string format;
  std::uint32_t checksum = 0;
  std::size_t key_bytes = 0;
  std::getline(in, format);
  if (format != kFormat) return "it is not of this version of the program";
  in >> checksum >> key_bytes;
  if (!in || in.get() != '\n') return "it is damaged";
  const std::string_view rest = std::string_view(content).substr(in.tellg());
  if (crc32c(to_bytes(rest)) != checksum || key_bytes > rest.size()) return "it is damaged";
  if (rest.substr(0, key_bytes) != key) {
    return "it is of another device, library version or shape";
  }
  plan = rest.substr(key_bytes);
  return "";
}

}  // namespace

Path PlanCache::make_path(const std::string& key) const {
  return folder_ / (sha256(key) + ".plan");
}

std::optional<std::string> SharedPlans::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? std::nullopt : std::optional(found->second);
}

std::string SharedPlans::add(const std::string& key, const std::string& plan) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  return plans_[key] = agree_ ? agree_(key, plan) : plan;
}

std::optional<std::string> PlanCache::load(const std::string& key) const {
  const std::optional<std::string> plan = shared_ ? shared_->find(key) : std::nullopt;
  return plan || folder_.empty() ? plan : load_file(key);
}

std::optional<std::string> PlanCache::load_file(const std::string& key) const {
  std::error_code error;
  if (!std::filesystem::exists(make_path(key), error)) return std::nullopt;
  std::string content, plan;
  try {
    content = read_text_file(make_path(key));
  } catch (const DataError& unreadable) {
    reject(key, unreadable.what());
    return std::nullopt;
  }
  const std::string why = read_plan(content, key, plan);
  if (why.empty()) return plan;
  reject(key, why);
  return std::nullopt;
}

void PlanCache::reject(const std::string& key, const std::string& why) const {
  if (warn_) warn_(concat(make_path(key).string(), " is ignored and written anew: ", why));
}

std::string PlanCache::keep(const std::string& key, const std::string& plan,
                            const std::optional<std::string>& loaded) const {
  const std::string kept = shared_ ? shared_->add(key, plan) : plan;
  if (folder_.empty() || loaded == kept) return kept;
  const std::string rest = key + kept;
  write_file_atomic(make_path(key),
                    concat(kFormat, '\n', crc32c(to_bytes(rest)), '\n', key.size(), '\n', rest));
  return kept;
}

}  // namespace trainer::backend::cuda
