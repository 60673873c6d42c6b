#include "data/samples/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/threads/cores.h"
#include "data/open.h"

namespace trainer::data {
namespace {

// Sample i is two floats [i, 2i] with the label i % 10. Reading sample `bad` fails.
class FakeDataset final : public Dataset {
 public:
  explicit FakeDataset(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::int64_t size() const override { return size_; }
  const DatasetSpec& spec() const override { return spec_; }
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    {
      const std::lock_guard lock(mutex_);
      ++reads;
    }
    read_.notify_all();
    if (index == bad_) throw DataError("fake.jpg", "sample " + std::to_string(index));
    // Some samples are slow on purpose, so that threads finish out of order.
    if (index % 16 == 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const float pixels[] = {static_cast<float>(index), static_cast<float>(2 * index)};
    std::memcpy(image, pixels, sizeof pixels);
    const auto number = static_cast<std::int32_t>(index % 10);
    std::memcpy(label, &number, sizeof number);
  }
  std::string fingerprint() const override { return "fake"; }

  // Returns whether `count` samples have been read by the end of the time.
  bool wait_for_reads(std::int64_t count, std::chrono::milliseconds time) const {
    std::unique_lock lock(mutex_);
    return read_.wait_for(lock, time, [&] { return reads >= count; });
  }

  mutable std::atomic<std::int64_t> reads{0};

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable read_;
  DatasetSpec spec_{{1, 2, 1}, DType::kFloat32};
  std::int64_t size_, bad_;
};

constexpr std::chrono::milliseconds kDeadline = std::chrono::minutes(1);

// Everything that a loader delivers, as numbers.
std::vector<std::vector<double>> drain(Loader& loader) {
  std::vector<std::vector<double>> result;
  while (const Batch* batch = loader.next()) {
    std::vector<double> numbers{static_cast<double>(batch->range.epoch),
                                static_cast<double>(batch->range.first)};
    REQUIRE(batch->indices.size() == static_cast<std::size_t>(batch->range.count));
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      const float* image = static_cast<const float*>(batch->images) + 2 * i;
      CHECK(image[0] == static_cast<float>(batch->indices[i]));
      numbers.push_back(image[0]);
      numbers.push_back(image[1]);
      numbers.push_back(static_cast<const std::int32_t*>(batch->labels)[i]);
    }
    result.push_back(std::move(numbers));
    loader.release();
  }
  CHECK(loader.next() == nullptr);
  return result;
}

LoaderOptions build_options(std::int64_t threads, std::int64_t prefetch, std::int64_t first = 0) {
  LoaderOptions options;
  options.batch_size = 32;
  options.seed = 11;
  options.shuffle = true;
  options.first_step = first;
  options.end_step = 3 * batches_per_epoch(200, 32);
  options.threads = threads;
  options.prefetch = prefetch;
  return options;
}

}  // namespace

TEST_CASE("loader returns the same batches for any number of threads and batches ahead") {
  const FakeDataset dataset(200);
  const auto expected = drain(*make_loader(dataset, build_options(0, 0)));
  REQUIRE(expected.size() == 21);
  // 200 = 6 * 32 + 8: the seventh batch is short, and each epoch has its own order.
  CHECK(expected[6].size() == 2 + 3 * 8);
  CHECK(expected[7] != expected[0]);
  for (const std::int64_t threads : {1, 2, 4}) {
    for (const std::int64_t prefetch : {0, 1, 2, 7, 50}) {
      CAPTURE(threads);
      CAPTURE(prefetch);
      CHECK(drain(*make_loader(dataset, build_options(threads, prefetch))) == expected);
    }
  }
}

TEST_CASE("loader counts each sample as progress") {
  const FakeDataset dataset(200);
  LoaderOptions options = build_options(2, 4);
  drain(*make_loader(dataset, options));
  CHECK(options.progress.count() >= 3 * 200);
  CHECK_FALSE(options.progress.is_open(Activity::kInput));
}

TEST_CASE("loader: next() reads its batch and no other without prefetch") {
  const FakeDataset dataset(200);
  const auto loader = make_loader(dataset, build_options(4, 0));
  CHECK(loader->describe() == "each batch is read when the step needs it");
  for (int batch = 1; batch <= 3; ++batch) {
    REQUIRE(loader->next() != nullptr);
    CHECK(dataset.reads == 32 * batch);
    loader->release();
  }
}

TEST_CASE("loader: a start in mid-epoch gives the rest of the sequence and no other reads") {
  const FakeDataset dataset(200);
  const auto whole = drain(*make_loader(dataset, build_options(2, 3)));
  for (const std::int64_t threads : {0, 3}) {
    dataset.reads = 0;
    const auto tail = drain(*make_loader(dataset, build_options(threads, 3, 9)));
    CHECK(tail == std::vector(whole.begin() + 9, whole.end()));
    CHECK(dataset.reads == 200 - 64 + 200);
  }
}

TEST_CASE("loader throws an error while reading at its batch") {
  const FakeDataset dataset(200, 70);
  for (const std::int64_t threads : {0, 1, 4}) {
    LoaderOptions options = build_options(threads, 4);
    options.shuffle = false;
    const auto loader = make_loader(dataset, options);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(loader->next() != nullptr);
      loader->release();
    }
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(loader->next(), "fake.jpg: sample 70", DataError);
    }
  }
}

TEST_CASE("loader: its threads end when it is destroyed at any moment") {
  const FakeDataset dataset(200);
  for (int taken = 0; taken < 6; ++taken) {
    LoaderOptions options = build_options(3, 2);
    options.end_step.reset();
    const std::int64_t reads = dataset.reads;
    const auto loader = make_loader(dataset, options);
    for (int i = 0; i < taken; ++i) {
      REQUIRE(loader->next() != nullptr);
      if (i + 1 < taken) loader->release();
    }
    // The threads wait for a free place here, or are in the middle of reading.
    const std::int64_t released = std::max(taken - 1, 0);
    if (taken % 2 == 0) CHECK(dataset.wait_for_reads(reads + 32 * (released + 3), kDeadline));
  }
}

TEST_CASE("loader: threads read at most `prefetch` batches ahead") {
  const FakeDataset dataset(1000);
  LoaderOptions options = build_options(2, 3);
  options.end_step.reset();
  const auto loader = make_loader(dataset, options);
  REQUIRE(loader->next() != nullptr);
  REQUIRE(dataset.wait_for_reads(32 * 4, kDeadline));
  // A read too many would come at once.
  CHECK_FALSE(dataset.wait_for_reads(32 * 4 + 1, std::chrono::milliseconds(50)));
}

TEST_CASE("loader: misuse and empty sets are an error") {
  const FakeDataset dataset(200);
  for (const std::int64_t threads : {0, 1}) {
    const auto loader = make_loader(dataset, build_options(threads, 2));
    REQUIRE(loader->next() != nullptr);
    CHECK_THROWS_AS(loader->next(), std::logic_error);
    CHECK(loader->seconds_waited() >= 0);
  }
  CHECK_THROWS_AS(make_loader(FakeDataset(0), LoaderOptions{}), DataError);
  LoaderOptions options;
  options.batch_size = 0;
  CHECK_THROWS_AS(make_loader(dataset, options), ConfigError);
}

TEST_CASE("loader: Remainder::kDrop gives only whole batches in the same order, also of ranks") {
  const FakeDataset dataset(200);  // 6 * 32 + 8
  LoaderOptions options = build_options(0, 0);
  const auto kept = drain(*make_loader(dataset, options));
  options.remainder = Remainder::kDrop;
  options.end_step = 3 * 6;
  CHECK(options.epoch_samples(200) == 192);
  CHECK(options.epoch_batches(200) == 6);
  const auto dropped = drain(*make_loader(dataset, options));
  REQUIRE(dropped.size() == 18);
  std::vector<std::vector<double>> left_out;  // by epoch
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    for (std::size_t batch = 0; batch < 6; ++batch) {
      CHECK(dropped[6 * epoch + batch] == kept[7 * epoch + batch]);
      CHECK(dropped[6 * epoch + batch].size() == 2 + 3 * 32);
    }
    left_out.push_back(kept[7 * epoch + 6]);
  }
  CHECK(left_out[0] != left_out[1]);
  for (const std::int64_t threads : {1, 4}) {
    LoaderOptions other = options;
    other.threads = threads;
    other.prefetch = 3;
    CHECK(drain(*make_loader(dataset, other)) == dropped);
    other.first_step = 8;
    CHECK(drain(*make_loader(dataset, other)) == std::vector(dropped.begin() + 8, dropped.end()));
  }
  const auto whole = make_loader(dataset, options);
  options.ranks = 3;
  std::vector<std::unique_ptr<Loader>> parts;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    parts.push_back(make_loader(dataset, options));
  }
  for (int step = 0; step < 18; ++step) {
    std::vector<std::int64_t> indices;
    for (const auto& part : parts) {
      const Batch* mine = part->next();
      CHECK(mine->global == 32);
      indices.insert(indices.end(), mine->indices.begin(), mine->indices.end());
      part->release();
    }
    CHECK(indices == whole->next()->indices);
    whole->release();
  }
}

TEST_CASE("loader: Remainder::kDrop with passes_per_epoch gives whole batches of each") {
  const FakeDataset dataset(67);
  LoaderOptions options = build_options(0, 0);
  options.batch_size = 2 * 16;
  options.passes_per_epoch = 2;
  options.remainder = Remainder::kDrop;
  options.end_step = 9;  // two epochs of 4 batches and the first of another
  const auto loader = make_loader(dataset, options);
  for (std::int64_t step = 0; step < 9; ++step) {
    const Batch* batch = loader->next();
    REQUIRE(batch != nullptr);
    CHECK(batch->global == 32);
    CHECK(batch->range.epoch == step / 4);
    loader->release();
  }
}

TEST_CASE("loader: Remainder::kDrop without a whole batch is an error") {
  const FakeDataset dataset(31);
  LoaderOptions options = build_options(0, 0);
  CHECK_NOTHROW(make_loader(dataset, options));
  options.remainder = Remainder::kDrop;
  CHECK_THROWS_WITH_AS(make_loader(dataset, options),
                       "data set: has only 31 samples for a batch of 32", DataError);
}

TEST_CASE("loader: describe() names the threads that were chosen or given") {
  const FakeDataset dataset(200);
  CHECK(make_loader(dataset, build_options(2, 5))->describe() == "2 threads, 5 batches ahead");
  CHECK(make_loader(dataset, build_options(1, 1))->describe() == "1 thread, 1 batch ahead");
  CHECK(make_loader(dataset, build_options(0, 1))->describe() ==
        "each batch is read when the step needs it");
  config::Data config;
  config.format = config::DataFormat::kSynthetic;
  const Datasets sets = open_datasets(config, 1);
  CHECK(make_loader(*sets.train, {})->describe() == "each batch is read when the step needs it");
}

TEST_CASE("Loader::read_seconds is the mean time of a batch") {
  const FakeDataset dataset(200);
  LoaderOptions options = build_options(1, 2);
  options.end_step = 10;
  double reading = 0;
  options.when_read = [&](const ReadBatch& read) {
    reading += std::chrono::duration<double>(read.end - read.start).count();
  };
  const auto start = std::chrono::steady_clock::now();
  const auto loader = make_loader(dataset, options);
  CHECK(make_loader(dataset, build_options(0, 1))->read_seconds() == 0);
  while (loader->next() != nullptr) loader->release();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  CHECK(loader->read_seconds() >= reading / 10);
  CHECK(loader->read_seconds() <= elapsed.count() / 10);
}

TEST_CASE("describe_cores names the keys that help where the cores are too few") {
  const std::int64_t usable = usable_core_count();
  CHECK(describe_cores(usable) == "this process may use " + std::to_string(usable));
  CHECK(describe_cores(usable + 1).find("; data.cache keeps") != std::string::npos);
}

TEST_CASE("loader: threads and batches ahead that are not given grow while reading takes longer") {
  const FakeDataset dataset(200);
  LoaderOptions options = build_options(1, 1);
  options.threads.reset();
  options.prefetch.reset();
  options.adapt = true;
  const auto read_threads = [](const Loader& loader) { return std::stoll(loader.describe()); };
  std::atomic<int> most_thread{-1};
  std::atomic<std::int64_t> batches{0};
  options.when_read = [&](const ReadBatch& read) {
    ++batches;
    if (read.thread > most_thread) most_thread = read.thread;
    if (read.end < read.start) most_thread = 1000;
  };
  options.end_step.reset();
  const auto loader = make_loader(dataset, options);
  CHECK(loader->describe() == "1 thread, 2 batches ahead");
  const auto cores = usable_core_count();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto has_grown = [&] {
    return loader->describe().find("(measured: ") != std::string::npos;
  };
  // Nothing is done with a batch, so that every one is waited for.
  while (!has_grown() && std::chrono::steady_clock::now() < limit) {
    loader->next();
    loader->release();
  }
  CHECK(has_grown());
  CHECK(read_threads(*loader) >= std::min<std::int64_t>(2, cores));
  CHECK(read_threads(*loader) <= cores);
  CHECK(batches > 0);
  CHECK(most_thread < cores);
  // What is given stays.
  options.end_step = 100;
  options.threads = 1;
  options.prefetch = 3;
  const auto given = make_loader(dataset, options);
  const std::int64_t before = batches;
  while (given->next() != nullptr) given->release();
  CHECK(given->describe() == "1 thread, 3 batches ahead");
  CHECK(batches - before >= 100);
}

TEST_CASE("loader: growing threads give the same batches") {
  const FakeDataset dataset(200);
  LoaderOptions options = build_options(1, 1);
  const auto expected = drain(*make_loader(dataset, options));
  options.threads.reset();
  options.prefetch.reset();
  options.adapt = true;
  CHECK(drain(*make_loader(dataset, options)) == expected);
}

TEST_CASE("loader: the parts of all ranks are together the batch") {
  const FakeDataset dataset(67);  // the third batch of an epoch has 3 samples
  for (const std::int64_t threads : {0, 2}) {
    for (const std::int64_t ranks : {2, 3, 5}) {
      LoaderOptions options = build_options(threads, threads);
      options.end_step = 6;
      const auto whole = make_loader(dataset, options);
      std::vector<std::unique_ptr<Loader>> parts;
      options.ranks = ranks;
      for (options.rank = 0; options.rank < ranks; ++options.rank) {
        parts.push_back(make_loader(dataset, options));
      }
      for (std::int64_t step = 0; step < 6; ++step) {
        const Batch* all = whole->next();
        REQUIRE(all != nullptr);
        CHECK(all->offset == 0);
        CHECK(all->global == all->range.count);
        std::vector<std::int64_t> indices;
        std::int64_t least = 1000, most = 0;
        for (const auto& part : parts) {
          const Batch* mine = part->next();
          REQUIRE(mine != nullptr);
          CHECK(mine->global == all->global);
          CHECK(mine->offset == static_cast<std::int64_t>(indices.size()));
          CHECK(mine->range.epoch == all->range.epoch);
          CHECK(mine->range.first == all->range.first + mine->offset);
          least = std::min(least, mine->range.count);
          most = std::max(most, mine->range.count);
          indices.insert(indices.end(), mine->indices.begin(), mine->indices.end());
          for (std::int64_t i = 0; i < mine->range.count; ++i) {
            CHECK(static_cast<const float*>(mine->images)[2 * i] ==
                  static_cast<float>(mine->indices[static_cast<std::size_t>(i)]));
          }
          part->release();
        }
        CHECK(indices == all->indices);
        CHECK(most - least <= 1);
        if (ranks == 5 && all->global == 3) CHECK(least == 0);
        whole->release();
      }
    }
  }
}

TEST_CASE("repeated samples follow one another with epochs of their own, for any ranks and start") {
  // Notes the epoch that a sample is read for in its second number.
  class Epochs final : public Dataset {
   public:
    std::int64_t size() const override { return 10; }
    const DatasetSpec& spec() const override { return spec_; }
    void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
      const float pixels[] = {static_cast<float>(index), static_cast<float>(epoch)};
      std::memcpy(image, pixels, sizeof pixels);
      const std::int32_t zero = 0;
      std::memcpy(label, &zero, sizeof zero);
    }
    std::string fingerprint() const override { return "epochs"; }

   private:
    DatasetSpec spec_{{1, 2, 1}, DType::kFloat32};
  };
  const Epochs dataset;
  const auto read = [&](std::int64_t ranks, std::int64_t first_step) {
    std::vector<std::pair<float, float>> all;
    for (std::int64_t step = first_step; step < 6; ++step) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        LoaderOptions options;
        options.batch_size = 4;
        options.shuffle = true;
        options.seed = 3;
        options.repeats = 3;
        options.ranks = ranks;
        options.rank = rank;
        options.first_step = step;
        options.end_step = step + 1;
        Loader loader(dataset, options);
        const Batch* batch = loader.next();
        const auto* pixels = static_cast<const float*>(batch->images);
        for (std::int64_t i = 0; i < batch->range.count; ++i) {
          all.emplace_back(pixels[2 * i], pixels[2 * i + 1]);
        }
      }
    }
    return all;
  };
  const auto all = read(1, 0);
  REQUIRE(all.size() == 20);  // two epochs of as many samples as without repeats
  const Sampler sampler(10, 3, true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto epoch = static_cast<std::int64_t>(i / 10), place = static_cast<std::int64_t>(i % 10);
    CHECK(all[i].first == static_cast<float>(sampler.index(epoch, place / 3)));
    CHECK(all[i].second == static_cast<float>(3 * epoch + place % 3));
  }
  CHECK(read(3, 0) == all);
  const auto rest = read(2, 2);
  CHECK(std::equal(rest.begin(), rest.end(), all.end() - static_cast<std::ptrdiff_t>(rest.size())));
}

TEST_CASE("loader: ranks of an ordered sum read the samples of their micro-batches") {
  const FakeDataset dataset(67);  // the third batch of an epoch has 3 samples
  LoaderOptions options = build_options(0, 0);
  options.end_step = 3;
  const std::int64_t batch = options.batch_size;
  options.ranks = 3;
  options.leaves = 8;
  std::vector<std::int64_t> counts, offsets;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    const auto loader = make_loader(dataset, options);
    for (const Batch* mine = loader->next(); mine != nullptr; mine = loader->next()) {
      counts.push_back(mine->range.count);
      offsets.push_back(mine->offset);
      loader->release();
    }
  }
  REQUIRE(batch == 32);
  // The ranks have 2, 3 and 3 of 8 micro-batches; only three of the last batch have a sample.
  CHECK(counts == std::vector<std::int64_t>{8, 8, 0, 12, 12, 1, 12, 12, 2});
  CHECK(offsets == std::vector<std::int64_t>{0, 0, 0, 8, 8, 0, 20, 20, 1});
}

TEST_CASE("loader: each of several passes has all samples in its own order") {
  const FakeDataset dataset(67);
  constexpr std::int64_t kPasses = 4, kSteps = 10;  // two epochs
  // One pass on its own, which has the epochs of all in turn.
  LoaderOptions single = build_options(0, 0);
  single.shuffle = true;
  single.batch_size = 16;
  const std::int64_t per_epoch = batches_per_epoch(67, 16);
  for (const std::int64_t ranks : {1, 2, 4}) {
    LoaderOptions options = single;
    options.batch_size = 16 * kPasses;
    options.passes_per_epoch = kPasses;
    options.ranks = ranks;
    options.end_step = kSteps;
    std::vector<std::map<std::int64_t, int>> seen(2);  // by epoch: how often a sample came
    for (options.rank = 0; options.rank < ranks; ++options.rank) {
      const auto loader = make_loader(dataset, options);
      for (std::int64_t step = 0; step < kSteps; ++step) {
        const Batch* batch = loader->next();
        REQUIRE(batch != nullptr);
        const std::int64_t epoch = step / per_epoch, own = kPasses / ranks;
        CHECK(batch->range.epoch == epoch);
        CHECK(batch->range.count * ranks == batch->global);
        CHECK(batch->offset == batch->range.count * options.rank);
        std::vector<std::int64_t> expected;
        for (std::int64_t pass = options.rank * own; pass < (options.rank + 1) * own; ++pass) {
          LoaderOptions alone = single;
          alone.end_step.reset();
          alone.first_step = (epoch * kPasses + pass) * per_epoch + step % per_epoch;
          const auto lone = make_loader(dataset, alone);
          const std::vector<std::int64_t>& indices = lone->next()->indices;
          expected.insert(expected.end(), indices.begin(), indices.end());
        }
        CHECK(batch->indices == expected);
        for (std::int64_t i = 0; i < batch->range.count; ++i) {
          CHECK(static_cast<const float*>(batch->images)[2 * i] ==
                static_cast<float>(batch->indices[static_cast<std::size_t>(i)]));
        }
        for (const std::int64_t index : batch->indices) {
          ++seen[static_cast<std::size_t>(epoch)][index];
        }
        loader->release();
      }
    }
    for (const auto& epoch : seen) {
      CHECK(epoch.size() == 67);
      for (const auto& [index, count] : epoch) CHECK(count == kPasses);
    }
  }
  LoaderOptions wrong = single;
  wrong.batch_size = 6;
  wrong.passes_per_epoch = 3;
  wrong.ranks = 2;
  CHECK_THROWS_AS(make_loader(dataset, wrong), std::logic_error);
}

TEST_CASE("loader: each of several batches out keeps its content until it is released") {
  const FakeDataset dataset(200);
  const auto expected = drain(*make_loader(dataset, build_options(0, 0)));
  for (const std::int64_t threads : {0, 1, 4}) {
    for (const std::int64_t prefetch : {1, 3}) {
      CAPTURE(threads);
      CAPTURE(prefetch);
      LoaderOptions options = build_options(threads, prefetch);
      options.out = 3;
      const auto loader = make_loader(dataset, options);
      std::deque<const Batch*> out;
      const auto check_oldest = [&](std::size_t step) {
        const Batch& batch = *out.front();
        CHECK(batch.range.first == static_cast<std::int64_t>(expected[step][1]));
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
          CHECK(static_cast<const float*>(batch.images)[2 * i] == expected[step][2 + 3 * i]);
          CHECK(static_cast<const std::int32_t*>(batch.labels)[i] == expected[step][4 + 3 * i]);
        }
        out.pop_front();
        loader->release();
      };
      std::size_t released = 0;
      for (std::size_t step = 0; step < expected.size(); ++step) {
        if (out.size() == 3) {
          CHECK_THROWS_AS(loader->next(), std::logic_error);
          check_oldest(released++);
        }
        out.push_back(loader->next());
        REQUIRE(out.back() != nullptr);
      }
      while (!out.empty()) check_oldest(released++);
      CHECK(loader->next() == nullptr);
      loader->release();  // of none
      CHECK(loader->next() == nullptr);
    }
  }
}

TEST_CASE("loader: images and labels are in the memory of an allocator") {
  const FakeDataset dataset(200);
  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Block> blocks;
  int freed = 0;
  LoaderOptions options = build_options(2, 3);
  options.out = 2;
  options.ranks = 3;
  options.allocate = [&](std::size_t bytes) {
    auto* data = new std::byte[bytes];
    blocks.push_back({data, bytes});
    return HostBuffer(data, bytes, [&freed](std::byte* p) {
      delete[] p;
      ++freed;
    });
  };
  const auto holds = [&](const void* from, std::size_t bytes) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Block& block) {
      return from == block.data && bytes <= block.bytes;
    });
  };
  auto loader = make_loader(dataset, options);
  CHECK(blocks.size() == 2 * (2 + 3));
  while (const Batch* batch = loader->next()) {
    CHECK(holds(batch->images, batch->indices.size() * 8));
    CHECK(holds(batch->labels, batch->indices.size() * 4));
    loader->release();
  }
  CHECK(blocks.size() == 2 * (2 + 3));
  CHECK(freed == 0);
  loader.reset();
  CHECK(freed == 2 * (2 + 3));
}

}  // namespace trainer::data
