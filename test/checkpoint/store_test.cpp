#include "checkpoint/store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace trainer::checkpoint {
namespace {

std::vector<Tensor> make_tensors(float value) {
  return {{"w", Shape{1000}, std::vector<float>(1000, value)}};
}

Path save(Store& store, std::int64_t step) {
  return store.save(step, make_tensors(static_cast<float>(step)), {{"step", std::to_string(step)}});
}

std::vector<std::int64_t> steps(const Store& store) {
  std::vector<std::int64_t> result;
  for (const Saved& saved : store.list()) result.push_back(saved.step);
  return result;
}

void damage(const Path& path) {
  Bytes bytes = read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomic(path, bytes);
}

}  // namespace

TEST_CASE("Store keeps the newest run.keep checkpoints and the best one") {
  const TemporaryFolder folder;
  Store store(folder.path(), 2);
  std::vector<std::string> warnings;
  CHECK_FALSE(store.load_latest(warnings));
  CHECK(save(store, 100) == folder.path() / "step-00000100.safetensors");
  store.mark_best(100);
  for (const int step : {200, 300, 400}) save(store, step);
  CHECK(steps(store) == std::vector<std::int64_t>{300, 400});
  CHECK(store.load_latest(warnings)->metadata.at("step") == "400");
  CHECK(load_best(folder.path()).metadata.at("step") == "100");
  store.mark_best(400);
  store.mark_best(400);
  CHECK(load_best(folder.path()).metadata.at("step") == "400");
  CHECK(warnings.empty());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CAPTURE(entry.path().string());
    CHECK(entry.path().string().find(".tmp.") == std::string::npos);
    ++files;
  }
  CHECK(files == 3);
  CHECK_THROWS_WITH_AS(store.mark_best(100), doctest::Contains("step-00000100"), DataError);
}

TEST_CASE("Store counts the bytes of a checkpoint as progress") {
  const TemporaryFolder folder;
  const Progress progress;
  Store store(folder.path(), 2, progress);
  const std::vector<float> values((std::size_t{40} << 20) / sizeof(float));
  store.save(1, {{"w", Shape{std::ssize(values)}, values}}, {});
  // Length, header, three parts of the tensor, begin and end.
  CHECK(progress.count() == 7);
}

TEST_CASE("Store sorts steps of more than eight digits as numbers") {
  const TemporaryFolder folder;
  Store store(folder.path(), 2);
  save(store, 99999999);
  save(store, 100000000);
  CHECK(steps(store) == std::vector<std::int64_t>{99999999, 100000000});
}

TEST_CASE("Store warns of a damaged newest checkpoint and loads the one before it") {
  const TemporaryFolder folder;
  Store store(folder.path(), 3);
  for (const int step : {1, 2, 3}) save(store, step);
  damage(store.list().back().path);
  std::vector<std::string> warnings;
  CHECK(store.load_latest(warnings)->metadata.at("step") == "2");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("step-00000003") != std::string::npos);

  for (const Saved& saved : store.list()) {
    if (saved.step < 3) damage(saved.path);
  }
  warnings.clear();
  CHECK_FALSE(store.load_latest(warnings));
  CHECK(warnings.size() == 3);
  warnings.clear();
  CHECK_THROWS_WITH_AS(load_last(folder.path(), warnings), doctest::Contains("no whole"),
                       DataError);
}

TEST_CASE(
    "Store: a file or folder that cannot be opened is an error and not a damaged checkpoint") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 3);
  for (const int step : {1, 2}) save(store, step);
  const Path newest = store.list().back().path;
  const Path other = folder.path() / "other";
  std::filesystem::rename(newest, other);
  std::filesystem::create_symlink(newest.filename(), newest);  // to itself: no one can open that
  std::vector<std::string> warnings;
  CHECK_THROWS_WITH_AS(store.load_latest(warnings), doctest::Contains("step-00000002"), Error);

  std::filesystem::remove_all(folder.path() / "checkpoints");
  std::filesystem::create_symlink("checkpoints", folder.path() / "checkpoints");
  CHECK_THROWS_WITH_AS(store.load_latest(warnings), doctest::Contains("cannot list"), DataError);
}

TEST_CASE("Store warns of a checkpoint under the name of another step and does not load it") {
  const TemporaryFolder folder;
  Store store(folder.path(), 3);
  const Path path = save(store, 1);
  std::filesystem::copy_file(path, folder.path() / "step-00000009.safetensors");
  std::vector<std::string> warnings;
  CHECK(store.load_latest(warnings)->metadata.at("step") == "1");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("step-00000009.safetensors: holds step 1") != std::string::npos);
}

TEST_CASE("Store removes later checkpoints at a save after a resume from an older step") {
  const TemporaryFolder folder;
  Store store(folder.path(), 2);
  for (const int step : {10, 20}) save(store, step);
  damage(store.list().back().path);
  save(store, 15);
  CHECK(steps(store) == std::vector<std::int64_t>{10, 15});
  std::vector<std::string> warnings;
  CHECK(store.load_latest(warnings)->metadata.at("step") == "15");
  CHECK(warnings.empty());
}

TEST_CASE("load finds the same checkpoint by a run folder, its checkpoints folder or a file") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 2);
  const Path path = save(store, 5);
  std::vector<std::string> warnings;
  CHECK(load_last(folder.path(), warnings).metadata.at("step") == "5");
  CHECK(load_last(folder.path() / "checkpoints", warnings).metadata.at("step") == "5");
  CHECK(load_last(path, warnings).tensors[0].values == std::vector<float>(1000, 5));
  CHECK_THROWS_WITH_AS(load_best(folder.path()), doctest::Contains("best"), DataError);
  CHECK_THROWS_WITH_AS(load_last(folder.path() / "nothing", warnings),
                       doctest::Contains("no such file"), DataError);
}

TEST_CASE(
    "Store: a folder that was moved or replaced is an error, and the new folder stays as it is") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "checkpoints";
  Store first(path, 2);
  save(first, 5);
  std::filesystem::rename(path, folder.path() / "moved");
  CHECK_THROWS_WITH_AS(save(first, 6), doctest::Contains("was moved, removed or replaced"),
                       DataError);
  CHECK_FALSE(std::filesystem::exists(path));
  Store second(path, 2);
  for (const int step : {3, 7}) save(second, step);
  second.mark_best(3);
  CHECK_THROWS_AS(save(first, 6), DataError);
  CHECK_THROWS_AS(first.mark_best(7), DataError);
  CHECK(steps(second) == std::vector<std::int64_t>{3, 7});
  std::vector<std::string> warnings;
  CHECK(load_best(path).metadata.at("step") == "3");
  std::filesystem::remove_all(path);  // a new folder must not be given the old one's inode
  std::filesystem::create_directory(path);
  CHECK_THROWS_AS(save(second, 8), DataError);
}

TEST_CASE("Store removes temporary files of a killed process when it opens") {
  const TemporaryFolder folder;
  const Path leftover = folder.path() / "step-00000007.safetensors.tmp.4711";
  write_file_atomic(leftover, "half");
  const Store store(folder.path(), 2);
  CHECK_FALSE(std::filesystem::exists(leftover));
}

TEST_CASE("Store: a complete checkpoint can be loaded after a process is killed at any moment") {
  const TemporaryFolder folder;
  std::int64_t reached = 0;
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Store store(folder.path(), 1);
      for (std::int64_t step = reached + 1;; ++step) {
        save(store, step);
        store.mark_best(step);
        if (::write(ends[1], "x", 1) != 1) ::_exit(1);
      }
    }
    ::close(ends[1]);
    char saved = 0;
    CHECK(::read(ends[0], &saved, 1) == 1);
    // A kill at a moment that no event marks is what is tested.
    ::usleep(static_cast<useconds_t>(3100 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    std::vector<std::string> warnings;
    const auto file = Store(folder.path(), 1).load_latest(warnings);
    CHECK(warnings.empty());
    REQUIRE(file);
    const std::int64_t step = std::stoll(file->metadata.at("step"));
    CHECK(step > reached);
    CHECK(file->tensors[0].values == std::vector<float>(1000, static_cast<float>(step)));
    reached = step;
  }
  CHECK(reached > 0);
}

}  // namespace trainer::checkpoint
