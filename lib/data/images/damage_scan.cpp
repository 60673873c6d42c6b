#include "data/images/damage_scan.h"

#include "base/error.h"
#include "base/threads/parallel.h"

namespace trainer::data {

DamageScan::DamageScan(std::shared_ptr<const ImageList> list, const ImageReader& reader,
                       ImageReader::Scale scale, const Path& cache_dir, config::FolderAccess access)
    : list_(std::move(list)),
      reader_(reader),
      scale_(scale),
      cache_dir_(cache_dir),
      access_(access) {}

std::vector<std::string> DamageScan::find(const std::vector<std::int64_t>& indices) {
  readable_ = std::make_unique<ReadableFiles>(
      cache_dir_,
      concat(list_->source, ' ', reader_.recipe(), ' ', reader_.channels(), ' ',
             scale_ == ImageReader::Scale::kFull, ' ', reader_.limits()),
      access_);
  std::vector<std::string> reasons(indices.size());
  parallel_for(indices.size(), [&](std::size_t i) {
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
