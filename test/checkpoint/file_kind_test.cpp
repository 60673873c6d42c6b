#include "checkpoint/file_kind.h"

#include <doctest/doctest.h>

#include <string>

#include "base/files/files.h"

namespace trainer::checkpoint {

TEST_CASE("describe_kind describes files without weights") {
  using std::string_literals::operator""s;
  const TemporaryFolder folder;
  const auto kind = [&](const char* name, const std::string& content) {
    const Path path = folder.path() / name;
    write_file_atomic(path, content);
    return describe_kind(path);
  };
  CHECK(kind("a", "PK\x03\x04 more") == "is a zip archive (.npz, .keras or a PyTorch checkpoint)");
  CHECK(kind("a", "\x1f\x8b") == "is a gzip file");
  CHECK(kind("a.npy", "\x93NUMPY") == "is an NPY file");
  CHECK(kind("a.yaml", "model: {}") == "is a YAML file (a config)");
  CHECK(kind("a.yml", "model: {}") == "is a YAML file (a config)");
  CHECK(kind("a", "{\"a\": 1}") == "is a JSON file");
  CHECK(kind("a", "step\tloss\r\n1\t2\r\n") == "is a text file");
  for (const std::string& bytes : {"ab\0"s, "\x01"s, "ab\x1b[0m"s}) {
    CHECK(kind("a", bytes) == "is a file of an unknown kind, or damaged at its start");
  }
}

}  // namespace trainer::checkpoint
