// The images that `new` measures.
#include "commands/new/starter.h"

#include <doctest/doctest.h>

#include "base/text.h"

namespace trainer::commands::starter_test {
namespace {

void write_image(const Path& file, std::int64_t side, bool grey) {
  const std::size_t bytes = (grey ? 1 : 3) * static_cast<std::size_t>(side * side);
  std::filesystem::create_directories(file.parent_path());
  write_file_atomic(
      file, concat(grey ? "P5 " : "P6 ", side, ' ', side, " 255\n", std::string(bytes, '\x80')));
}

TEST_CASE("look_at measures every image of classes of few images once") {
  const TemporaryFolder folder;
  for (const char* name : {"cat", "dog"}) {
    for (int i = 0; i < 10; ++i) {
      write_image(folder.path() / name / concat(i, ".ppm"), 11 + i, i < 9);
    }
  }
  const ImageSource images = look_at(folder.path());
  CHECK(images.height == 16);
  CHECK(images.width == 16);
  CHECK_FALSE(images.is_grey);  // the last image of each class has colours
}

}  // namespace
}  // namespace trainer::commands::starter_test
