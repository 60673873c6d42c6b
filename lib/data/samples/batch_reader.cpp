#include "data/samples/batch_reader.h"

#include <algorithm>

#include "base/numbers/partition.h"
#include "base/numbers/sum_tree.h"

namespace trainer::data {

BatchReader::BatchReader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      sampler_(options.balance ? balanced_sampler(dataset, options.seed)
                               : Sampler(dataset.size(), options.seed, options.shuffle)),
      batch_size_(options.batch_size),
      rank_(options.rank),
      ranks_(options.ranks),
      leaves_(options.leaves),
      passes_per_epoch_(options.passes_per_epoch),
      repeats_(options.repeats),
      epoch_samples_(options.epoch_samples(dataset.size())),
      augment_(options.augment),
      progress_(options.progress),
      image_bytes_(dataset.spec().image_bytes()),
      label_bytes_(dataset.spec().label_bytes()) {}

BatchBuffer BatchReader::allocate(const HostAllocator& allocate) const {
  const std::int64_t batch = std::min(batch_size_, dataset_.size() * passes_per_epoch_);
  const std::size_t max_samples = max_rank_samples(batch, leaves_, ranks_);
  BatchBuffer buffer{
      allocate(max_samples * image_bytes_), allocate(max_samples * label_bytes_), {}};
  buffer.batch.images = buffer.images.data();
  buffer.batch.labels = buffer.labels.data();
  buffer.batch.indices.reserve(max_samples);
  return buffer;
}

void BatchReader::fill(BatchBuffer& buffer, std::int64_t step) const {
  Batch& batch = buffer.batch;
  const BatchRange each = batch_range(epoch_samples_, batch_size_ / passes_per_epoch_, step);
  batch.global = each.count * passes_per_epoch_;
  const Partition part = rank_samples(batch.global, leaves_, ranks_, rank_);
  const std::int64_t pass = passes_per_epoch_ == 1 ? 0 : part.first / each.count;
  batch.offset = part.first;
  batch.range = {each.epoch, each.first + part.first - pass * each.count, part.count};
  batch.indices.resize(part.count);
  for (std::int64_t done = 0; done < part.count; done += each.count) {
    // Pass p of P in epoch e equals epoch e * P + p where an epoch uses each sample once.
    read(buffer, done,
         {each.epoch * passes_per_epoch_ + pass + done / each.count, batch.range.first,
          std::min(each.count, part.count - done)});
  }
}

// Reads samples of one pass to the places of the batch from `to` on.
void BatchReader::read(BatchBuffer& buffer, std::size_t to, const BatchRange& range) const {
  const std::span<std::int64_t> indices = std::span(buffer.batch.indices).subspan(to, range.count);
  const std::int64_t first = range.first / repeats_;
  const std::int64_t last = (range.first + range.count - 1) / repeats_;
  if (range.count > 0) {
    const std::size_t count = last - first + 1;
    sampler_.indices(range.epoch, first, indices.first(count));
  }
  for (std::int64_t i = range.count - 1; repeats_ > 1 && i >= 0; --i) {
    indices[i] = indices[(range.first + i) / repeats_ - first];
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t repeat = (range.first + static_cast<std::int64_t>(i)) % repeats_;
    dataset_.get(indices[i], augment_ ? range.epoch * repeats_ + repeat : kNoEpoch,
                 buffer.images.data() + (to + i) * image_bytes_,
                 buffer.labels.data() + (to + i) * label_bytes_);
    progress_.advance();
  }
}

}  // namespace trainer::data
