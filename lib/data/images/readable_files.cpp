#include "data/images/readable_files.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/threads/parallel.h"

namespace trainer::data {
namespace {

// Change this text when the decoders accept other files than before.
constexpr char kMagic[] = "trainer readable image files 3\n";
constexpr std::size_t kStart = sizeof kMagic - 1;
constexpr std::size_t kHead = kStart + sizeof(std::uint32_t);  // the states follow

// File systems store times in steps of up to two seconds (FAT).
constexpr std::chrono::seconds kSettled{2};

std::uint32_t compute_checksum(const Bytes& content) {
  return crc32c(std::span(content).subspan(kHead));
}

std::set<FileState> parse_states(const Bytes& content) {
  if (content.size() < kHead || (content.size() - kHead) % sizeof(FileState) != 0 ||
      !std::equal(kMagic, kMagic + kStart, content.begin())) {
    return {};
  }
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, content.data() + kStart, sizeof checksum);
  if (checksum != compute_checksum(content)) return {};
  std::set<FileState> states;
  for (std::size_t at = kHead; at < content.size(); at += sizeof(FileState)) {
    FileState state;
    std::memcpy(state.data(), content.data() + at, sizeof state);
    states.insert(states.end(), state);
  }
  return states;
}

}  // namespace

ReadableFiles::ReadableFiles(const Path& folder, const std::string& settings,
                             config::FolderAccess access)
    : access_(access), opened_(std::filesystem::file_time_type::clock::now()) {
  path_ = folder / concat("readable-", sha256(settings).substr(0, 16), ".bin");
  if (!is_file(path_)) return;
  try {
    states_ = parse_states(read_file(path_));
  } catch (const DataError&) {
  }
}

std::optional<FileState> ReadableFiles::find_state(const std::string& path) const {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return std::nullopt;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error || time > opened_ - kSettled) return std::nullopt;
  const Path absolute = std::filesystem::absolute(path, error);
  if (error) return std::nullopt;
  const std::string digits =
      sha256(concat(size, ' ', time.time_since_epoch().count(), ' ', absolute.string()));
  FileState state;
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i] = static_cast<std::uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  return state;
}

void ReadableFiles::add(const FileState& state) {
  const std::lock_guard lock(mutex_);
  added_.insert(state);
}

void ReadableFiles::save() const noexcept {
  if (added_.empty() || access_ == config::FolderAccess::kReadOnly) return;
  try {
    std::set<FileState> all = states_;
    all.insert(added_.begin(), added_.end());
    Bytes content(kHead + all.size() * sizeof(FileState));
    std::memcpy(content.data(), kMagic, kStart);
    std::size_t at = kHead;
    for (const FileState& state : all) {
      std::memcpy(content.data() + at, state.data(), sizeof state);
      at += sizeof state;
    }
    const std::uint32_t checksum = compute_checksum(content);
    std::memcpy(content.data() + kStart, &checksum, sizeof checksum);
    std::filesystem::create_directories(path_.parent_path());
    write_file_atomic(path_, content);
  } catch (const std::exception&) {
  }
}

void ReadableFiles::forget() const noexcept {
  if (access_ == config::FolderAccess::kReadOnly) return;
  std::error_code error;
  std::filesystem::remove(path_, error);
}

DamageScan::DamageScan(std::shared_ptr<const ImageList> list, const ImageReader& reader,
                       ImageReader::Scale scale, const Path& cache_dir, config::FolderAccess access,
                       Progress progress)
    : list_(std::move(list)),
      reader_(reader),
      scale_(scale),
      cache_dir_(cache_dir),
      access_(access),
      progress_(std::move(progress)) {}

std::vector<std::string> DamageScan::find(const std::vector<std::int64_t>& indices) {
  readable_ = std::make_unique<ReadableFiles>(
      cache_dir_,
      concat(list_->source, ' ', reader_.recipe(), ' ', reader_.channels(), ' ',
             scale_ == ImageReader::Scale::kFull, ' ', reader_.limits()),
      access_);
  std::vector<std::string> reasons(indices.size());
  parallel_for(indices.size(), [&](std::size_t i) {
    progress_.advance();
    const ListedFile& file = list_->files[indices[i]];
    // Only whole files are recorded.
    const auto state = file.bytes < 0 ? readable_->find_state(file.path) : std::nullopt;
    if (state && readable_->contains(*state)) return;
    try {
      reader_.decode(file.stored(), scale_);
      if (state) readable_->add(*state);
    } catch (const DataError& error) {
      reasons[i] = error.what();
    }
  });
  readable_->save();
  return reasons;
}

void DamageScan::forget() const noexcept {
  if (readable_) readable_->forget();
}

}  // namespace trainer::data
