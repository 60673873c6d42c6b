// NCCL as it is found on the system, and what is reported when it is not there or too old.
#include "backend/cuda/collectives/nccl.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/files/files.h"

namespace trainer::backend::cuda {
namespace {

namespace fs = std::filesystem;

std::string reason() {
  try {
    nccl();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

// True if a process that looks for libraries in `folder` first prints `text`.
bool says(const fs::path& folder, const std::string& text) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  return std::system(concat("LD_LIBRARY_PATH=", folder.string(), " ", self,
                            " -tc='nccl prints its error for another test' -ns | grep -q '", text,
                            "'")
                         .c_str()) == 0;
}

}  // namespace

TEST_CASE("nccl: all functions are found, or an error that names the library") {
  const std::string missing = reason();
  if (missing.empty()) {
    const bool whole = nccl().all_reduce != nullptr && nccl().last_error != nullptr;
    CHECK(whole);
    CHECK(std::string(nccl().error_string(ncclSystemError)).find("system") != std::string::npos);
    CHECK(&nccl() == &nccl());
  } else {
    CHECK(missing.find("libnccl.so.2") != std::string::npos);
  }
  CHECK(reason() == missing);
}

TEST_CASE("nccl: the error of a library that is too old has the function that it lacks") {
  const TemporaryFolder folder;
  fs::copy_file(OLD_NCCL, folder.path() / "libnccl.so.2");
  CHECK(
      says(folder.path(),
           "libnccl.so.2 is too old for several GPUs: it has no function ncclCommInitRankConfig"));
}

TEST_CASE("nccl: the error of a library that cannot be opened has the reason") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "libnccl.so.2") << "not a library, but a text that is long enough "
                                                   "to be read as the head of one\n";
  CHECK(says(folder.path(), "several GPUs need NCCL, and it cannot be opened: .*libnccl.so.2"));
}

TEST_CASE("nccl prints its error for another test" * doctest::skip()) {
  std::puts(reason().c_str());
}

}  // namespace trainer::backend::cuda
