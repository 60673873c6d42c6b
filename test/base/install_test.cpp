// Files that are installed with the program.
#include "base/process/install.h"

#include <doctest/doctest.h>

namespace trainer {
namespace {

namespace fs = std::filesystem;

void write(const Path& file) {
  fs::create_directories(file.parent_path());
  write_file_atomic(file, "name: x\n");
}

}  // namespace

TEST_CASE("find_installed_file finds the configs of a prefix and of a wheel") {
  const TemporaryFolder folder;
  for (const char* program : {"bin/trainer", "lib/python3.11/site-packages/imagetrainer/trainer"}) {
    CAPTURE(program);
    const Path prefix = folder.path() / Path(program).begin()->string() / "a prefix";
    const Path config = prefix / "share/trainer/configs/mnist.yaml";
    const Path binary = prefix / program;
    CHECK(find_installed_file(binary, "configs/mnist.yaml").empty());
    write(config);
    write(prefix / "share/trainer/datasets/mnist.sh");
    CHECK(find_installed_file(binary, "configs/mnist.yaml") == config);
    CHECK(find_installed_file(binary, "./configs/../configs/mnist.yaml") == config);
    CHECK(find_installed_file(binary, "mnist.yaml") == config);
    CHECK(find_installed_file(binary, "datasets/mnist.sh") ==
          prefix / "share/trainer/datasets/mnist.sh");
  }
}

TEST_CASE("find_installed_file returns an empty path for other names and places") {
  const TemporaryFolder folder;
  const Path program = folder.path() / "bin/trainer";
  const Path config = folder.path() / "share/trainer/configs/mnist.yaml";
  write(config);
  write(folder.path() / "share/other.yaml");
  for (const Path& name : {Path("cifar10.yaml"), Path("my/mnist.yaml"), Path(""), Path("."),
                           Path("configs"), Path("../other.yaml"), config}) {
    CAPTURE(name);
    CHECK(find_installed_file(program, name).empty());
  }
}

}  // namespace trainer
