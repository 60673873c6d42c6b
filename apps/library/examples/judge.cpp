// Prints how far image files are from the training images, and their classes: judge RUN IMAGES...
//
// The images are read here, as those of a camera or of a data base would be.
#include <trainer.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Close {
  void operator()(trainer_model* model) const { trainer_close(model); }
  void operator()(trainer_result* result) const { trainer_free(result); }
};
using Model = std::unique_ptr<trainer_model, Close>;
using Result = std::unique_ptr<trainer_result, Close>;

Model open_model(const std::string& run) {
  trainer_model* model = nullptr;
  trainer_error error;
  if (trainer_open(run.c_str(), nullptr, &model, &error) != TRAINER_OK) {
    throw std::runtime_error(error.message);
  }
  return Model(model);
}

Result predict(trainer_model& model, const std::vector<std::string>& files) {
  std::vector<trainer_image> images;
  for (const std::string& file : files) {
    images.push_back(trainer_image_encoded(file.data(), file.size()));
  }
  trainer_result* result = nullptr;
  trainer_error error;
  if (trainer_predict(&model, images.data(), images.size(), &result, &error) != TRAINER_OK) {
    throw std::runtime_error(error.message);
  }
  return Result(result);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int run(const std::vector<std::string>& words) {
  const Model model = open_model(words.at(0));
  std::vector<std::string> files;
  for (std::size_t i = 1; i < words.size(); ++i) files.push_back(read_bytes(words[i]));
  const Result result = predict(*model, files);
  const double* distances = trainer_distances(result.get());
  if (distances == nullptr) {
    throw std::runtime_error("the run has no limit: trainer evaluate " + words[0] + " --novelty");
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::cout << words[i + 1] << ' ';
    if (const char* reason = trainer_image_error(result.get(), i)) {
      std::cout << "skipped: " << reason << '\n';
      continue;
    }
    const std::int32_t predicted = trainer_classes(result.get())[i];
    std::cout << distances[i] << ' '
              << (trainer_novel(result.get())[i] != 0 ? "none of the classes"
                  : predicted < 0                     ? "several labels"
                                                      : trainer_class_name(model.get(), predicted))
              << '\n';
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count > 2) return run({words + 1, words + count});
    std::cerr << "usage: judge RUN IMAGES...\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return 2;
}
