// The functions of trainer.h.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "library/model.h"
#include "library/trainer.h"

// NOLINTBEGIN(readability-identifier-naming): the names of the C interface
struct trainer_model {
  trainer::library::Model model;
};
struct trainer_result {
  trainer::library::Predictions predictions;
};
// NOLINTEND(readability-identifier-naming)

namespace {

using trainer::library::Model;

// A mistake of the caller.
struct CallError : std::runtime_error {
  CallError(trainer_status status, const char* message)
      : std::runtime_error(message), code(status) {}
  trainer_status code;
};

trainer_status report(trainer_error* error, trainer_status code, const char* message) noexcept {
  if (error != nullptr) {
    error->code = code;
    const std::size_t length = std::min(std::strlen(message), sizeof(error->message) - 1);
    std::memcpy(error->message, message, length);
    error->message[length] = '\0';
  }
  return code;
}

// Calls `work` and turns its exception into an error.
template <class Work>
trainer_status guard(trainer_error* error, const Work& work) noexcept {
  try {
    work();
    return report(error, TRAINER_OK, "");
  } catch (const CallError& mistake) {
    return report(error, mistake.code, mistake.what());
  } catch (const trainer::Error& failed) {
    const trainer_status code = failed.code() == trainer::kExitConfig   ? TRAINER_CONFIG
                                : failed.code() == trainer::kExitData   ? TRAINER_DATA
                                : failed.code() == trainer::kExitDevice ? TRAINER_DEVICE
                                                                        : TRAINER_INTERNAL;
    return report(error, code, failed.what());
  } catch (const std::filesystem::filesystem_error& failed) {
    return report(error, TRAINER_DATA, failed.what());
  } catch (const std::system_error& failed) {  // the system gives no further thread
    return report(error, TRAINER_DEVICE, failed.what());
  } catch (const std::bad_alloc&) {
    return report(error, TRAINER_DEVICE, "out of memory");
  } catch (const std::exception& failed) {
    return report(error, TRAINER_INTERNAL, failed.what());
  } catch (...) {
    return report(error, TRAINER_INTERNAL, "an unknown error");
  }
}

void require(bool holds, const char* message) {
  if (!holds) throw CallError(TRAINER_ARGUMENT, message);
}

std::string read_name(const char* text) { return text == nullptr ? "" : text; }

trainer::data::GivenImage read_image(const trainer_image& image) {
  require(image.data != nullptr, "data of an image is NULL");
  switch (image.kind) {
    case TRAINER_FILE:
      return std::string(static_cast<const char*>(image.data));
    case TRAINER_ENCODED:
      return std::span(static_cast<const std::uint8_t*>(image.data), image.size);
    case TRAINER_PIXELS:
      return trainer::data::PixelView{static_cast<const std::uint8_t*>(image.data),
                                      image.height,
                                      image.width,
                                      image.channels,
                                      image.row_stride,
                                      image.column_stride,
                                      image.channel_stride};
  }
  throw CallError(TRAINER_ARGUMENT,
                  "kind of an image: expected TRAINER_FILE, TRAINER_ENCODED or TRAINER_PIXELS");
}

template <class T>
const T* find_data(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

const Model& check_model(const trainer_model* model) {
  require(model != nullptr, "model is NULL");
  if (!model->model.is_here()) {
    throw CallError(TRAINER_FORKED,
                    "this process was forked after the model was opened, and has none of its "
                    "threads; open the model in this process");
  }
  return model->model;
}

}  // namespace

const char* trainer_version() { return TRAINER_LIBRARY_VERSION; }

trainer_status trainer_open(const char* path, const trainer_options* options, trainer_model** model,
                            trainer_error* error) {
  if (model != nullptr) *model = nullptr;
  return guard(error, [&] {
    require(path != nullptr, "path is NULL");
    require(model != nullptr, "model is NULL");
    trainer::library::Options chosen;
    if (options != nullptr) {
      chosen.checkpoint = read_name(options->checkpoint);
      chosen.threads = options->threads;
      chosen.calibrated = options->uncalibrated == 0;
      chosen.novelty = options->no_novelty == 0;
      chosen.features = options->features != 0;
    }
    require(chosen.threads >= 0, "threads: expected 0 or more");
    *model = new trainer_model{Model(path, chosen)};
  });
}

void trainer_close(trainer_model* model) {
  if (model == nullptr || !model->model.is_here()) return;
  delete model;
}

const char* trainer_notes(const trainer_model* model) { return model->model.notes().c_str(); }
std::int64_t trainer_step(const trainer_model* model) { return model->model.step(); }
std::size_t trainer_class_count(const trainer_model* model) { return model->model.names().size(); }

const char* trainer_class_name(const trainer_model* model, std::size_t index) {
  const auto& names = model->model.names();
  return index < names.size() ? names[index].c_str() : nullptr;
}

int trainer_has_labels(const trainer_model* model) { return model->model.has_labels() ? 1 : 0; }

double trainer_novelty_limit(const trainer_model* model) { return model->model.novelty_limit(); }
std::size_t trainer_feature_count(const trainer_model* model) {
  return model->model.feature_count();
}

void trainer_input_size(const trainer_model* model, std::int32_t* height, std::int32_t* width,
                        std::int32_t* channels) {
  const trainer::Shape shape = model->model.image_shape();
  *height = static_cast<std::int32_t>(shape[0]);
  *width = static_cast<std::int32_t>(shape[1]);
  *channels = static_cast<std::int32_t>(shape[2]);
}

trainer_status trainer_predict(trainer_model* model, const trainer_image* images, std::size_t count,
                               trainer_result** result, trainer_error* error) {
  if (result != nullptr) *result = nullptr;
  return guard(error, [&] {
    require(result != nullptr, "result is NULL");
    require(images != nullptr || count == 0, "images is NULL");
    const Model& opened = check_model(model);
    std::vector<trainer::data::GivenImage> given;
    given.reserve(count);
    for (std::size_t i = 0; i < count; ++i) given.push_back(read_image(images[i]));
    *result = new trainer_result{opened.predict(std::move(given))};
  });
}

void trainer_free(trainer_result* result) { delete result; }

std::size_t trainer_image_count(const trainer_result* result) {
  return result->predictions.errors.size();
}
const char* trainer_image_error(const trainer_result* result, std::size_t image) {
  const auto& errors = result->predictions.errors;
  return image < errors.size() && !errors[image].empty() ? errors[image].c_str() : nullptr;
}
const double* trainer_probabilities(const trainer_result* result) {
  return result->predictions.probabilities.data();
}
const std::int32_t* trainer_classes(const trainer_result* result) {
  return result->predictions.classes.data();
}
const std::uint8_t* trainer_labels(const trainer_result* result) {
  return find_data(result->predictions.labels);
}
const double* trainer_distances(const trainer_result* result) {
  return find_data(result->predictions.distances);
}
const std::uint8_t* trainer_novel(const trainer_result* result) {
  return find_data(result->predictions.novel);
}
const float* trainer_features(const trainer_result* result) {
  return find_data(result->predictions.features);
}
