/* Predicts with models that `trainer` has trained, on the CPU: libtrainer.so.
 *
 * The probabilities of a call are those of `trainer predict` with the same images, bit for bit.
 *
 * - Handles hold all state. Several threads may use one handle at once, as long as none of them
 *   closes it; calls decode images side by side and take turns on the model.
 * - The library installs no signal handler, prints nothing and changes no setting of the caller's
 *   threads. A handle has threads of its own, in which signals are blocked; a call with several
 *   images starts more, which end with it.
 * - A handle cannot be used in a process that was forked after it was opened: TRAINER_FORKED.
 * - Beyond handles there remain the oneDNN library's engine and cache of primitives, the thread
 *   pools of OpenMP, the contents of opened zip archives, and memory of each thread that decoded
 *   images, which ends with the thread.
 *
 * Names are UTF-8 or the bytes of the file system. A pointer to const that a function returns is
 * valid until its handle is closed.
 */
#ifndef TRAINER_H
#define TRAINER_H

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(modernize-*,readability-identifier-naming): this is C */
#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. Programs that were linked with a library of the same major version
 * run with it. */
#define TRAINER_VERSION_MAJOR 0
#define TRAINER_VERSION_MINOR 1
#define TRAINER_VERSION_PATCH 0

#if defined(__GNUC__)
#define TRAINER_API __attribute__((visibility("default")))
#else
#define TRAINER_API
#endif

/* Returns the version of the library: "0.1.0". */
TRAINER_API const char* trainer_version(void);

/* ---- Errors */

typedef enum trainer_status {
  TRAINER_OK = 0,
  TRAINER_ARGUMENT = 1, /* an argument of the call is wrong */
  TRAINER_CONFIG = 2,   /* the config of the run or an option is wrong */
  TRAINER_DATA = 3,     /* a file is wrong or missing */
  TRAINER_DEVICE = 4,   /* the machine lacks memory, threads or instructions */
  TRAINER_FORKED = 5,   /* the handle belongs to the parent of this process */
  TRAINER_INTERNAL = 6  /* please report it */
} trainer_status;

/* What went wrong in a call. Functions that take it return its code, and accept NULL. */
typedef struct trainer_error {
  trainer_status code;
  char message[2044]; /* what was expected and what to do; cut if it is longer, "" for TRAINER_OK */
} trainer_error;

/* ---- Models */

typedef struct trainer_model trainer_model;

typedef struct trainer_options {
  const char* checkpoint; /* "best" or "last" of a run; NULL: as `trainer predict` */
  int32_t threads;        /* processor cores to use; 0: as the run's config sets */
  int32_t uncalibrated;   /* not 0: without the temperature of `evaluate --calibrate` */
  int32_t no_novelty;     /* not 0: without the limit of `evaluate --novelty` */
  int32_t features;       /* not 0: with features, which are computed in float32 */
} trainer_options;

/* Opens a run folder or a checkpoint. `options` may be NULL. `*model` becomes NULL on errors. */
TRAINER_API trainer_status trainer_open(const char* path, const trainer_options* options,
                                        trainer_model** model, trainer_error* error);
/* Waits for nothing: no call may be in progress. Does nothing for NULL. In a forked process, the
 * handle's memory stays. */
TRAINER_API void trainer_close(trainer_model* model);

/* The lines that `trainer predict` prints about this model beside its predictions, such as the use
 * of the best checkpoint; "" for none. */
TRAINER_API const char* trainer_notes(const trainer_model* model);
/* The step of the checkpoint. */
TRAINER_API int64_t trainer_step(const trainer_model* model);
/* The classes, or the labels of a model that gives an image several labels. A regression has one
 * for each number that it estimates. */
TRAINER_API size_t trainer_class_count(const trainer_model* model);
/* NULL for an index that is too large. */
TRAINER_API const char* trainer_class_name(const trainer_model* model, size_t index);
/* Returns 1 for a model that gives an image several labels, else 0. */
TRAINER_API int trainer_has_labels(const trainer_model* model);
/* Returns the distance to the training images above which an image shows none of the classes, which
 * `evaluate --novelty` has found; NaN without one. */
TRAINER_API double trainer_novelty_limit(const trainer_model* model);
/* The number of features of an image; 0 unless trainer_options asks for them. */
TRAINER_API size_t trainer_feature_count(const trainer_model* model);
/* The size to which images are resized, and 1 for grey or 3 for colour; other numbers of channels
 * are those of the training images. */
TRAINER_API void trainer_input_size(const trainer_model* model, int32_t* height, int32_t* width,
                                    int32_t* channels);

/* ---- Images */

typedef enum trainer_image_kind {
  TRAINER_FILE = 0,    /* the path of an image file */
  TRAINER_ENCODED = 1, /* the bytes of an image file */
  TRAINER_PIXELS = 2   /* rows of 8-bit pixels */
} trainer_image_kind;

typedef struct trainer_image {
  int32_t kind;                    /* a trainer_image_kind */
  const void* data;                /* the path, the bytes, or the first value of the first row */
  size_t size;                     /* TRAINER_ENCODED: the number of bytes */
  int32_t height, width, channels; /* TRAINER_PIXELS, as is what follows */
  ptrdiff_t row_stride, column_stride, channel_stride; /* in bytes, possibly negative */
} trainer_image;

static inline trainer_image trainer_image_file(const char* path) {
  trainer_image image = {TRAINER_FILE, path, 0, 0, 0, 0, 0, 0, 0};
  return image;
}
static inline trainer_image trainer_image_encoded(const void* bytes, size_t size) {
  trainer_image image = {TRAINER_ENCODED, bytes, size, 0, 0, 0, 0, 0, 0};
  return image;
}
/* Packed pixels: 1 channel of grey, 3 of red, green and blue, or as many as the model takes. */
static inline trainer_image trainer_image_pixels(const uint8_t* pixels, int32_t height,
                                                 int32_t width, int32_t channels) {
  trainer_image image = {
      TRAINER_PIXELS, pixels, 0, height, width, channels, (ptrdiff_t)width * channels, channels, 1};
  return image;
}

/* ---- Predictions */

typedef struct trainer_result trainer_result;

/* Predicts the classes of images, which are resized as `trainer predict` resizes files. An image
 * that cannot be read does not fail the call: see trainer_image_error(). `*result` becomes NULL on
 * errors; free it with trainer_free(). */
TRAINER_API trainer_status trainer_predict(trainer_model* model, const trainer_image* images,
                                           size_t count, trainer_result** result,
                                           trainer_error* error);
/* Does nothing for NULL. */
TRAINER_API void trainer_free(trainer_result* result);

/* The number of images. */
TRAINER_API size_t trainer_image_count(const trainer_result* result);
/* Why an image has no prediction; NULL if it has one. */
TRAINER_API const char* trainer_image_error(const trainer_result* result, size_t image);
/* A row for each image, with a number for each class: its probability, or the estimate of a
 * regression; NaN for images without a prediction. */
TRAINER_API const double* trainer_probabilities(const trainer_result* result);
/* The class of each image by the run's operating point, or else the likeliest one; -1 for images
 * without a prediction, and of models that give an image several labels. */
TRAINER_API const int32_t* trainer_classes(const trainer_result* result);
/* A row for each image: 1 for each label above its threshold, else 0. NULL for models that give an
 * image one class. */
TRAINER_API const uint8_t* trainer_labels(const trainer_result* result);
/* The distance of each image to the training images, NaN for images without a prediction; NULL
 * without a limit of novelty. */
TRAINER_API const double* trainer_distances(const trainer_result* result);
/* 1 for each image that shows none of the classes, else 0; NULL without a limit of novelty. The
 * image has probabilities and a class all the same. */
TRAINER_API const uint8_t* trainer_novel(const trainer_result* result);
/* A row for each image, with the output of the layer before the last one with weights, as `predict
 * --features` writes it; NaN for images without a prediction. NULL without features. */
TRAINER_API const float* trainer_features(const trainer_result* result);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-*,readability-identifier-naming) */

#endif
