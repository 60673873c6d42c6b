#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library/trainer.h"

enum { kHeight = 40, kWidth = 36, kPictures = 16, kMostThreads = 64 };

struct job {
  trainer_model *model;
  const double *expected; /* a row for each picture */
  int images, first;
  atomic_int *done, *wrong;
};

static void draw(int picture, uint8_t *pixels) {
  uint32_t state = (uint32_t)picture + 1;
  for (int i = 0; i < kHeight * kWidth * 3; ++i) {
    state = state * 1664525u + 1013904223u;
    pixels[i] = (uint8_t)(state >> 24);
  }
}

/* Writes the probabilities of a picture; returns 0 if that fails. */
static int predict(trainer_model *model, int picture, double *row) {
  uint8_t pixels[kHeight * kWidth * 3];
  draw(picture, pixels);
  const trainer_image image = trainer_image_pixels(pixels, kHeight, kWidth, 3);
  trainer_result *result = NULL;
  trainer_error error;
  if (trainer_predict(model, &image, 1, &result, &error) != TRAINER_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 0;
  }
  memcpy(row, trainer_probabilities(result), trainer_class_count(model) * sizeof *row);
  const int is_read = trainer_image_error(result, 0) == NULL;
  trainer_free(result);
  return is_read;
}

static void *work(void *argument) {
  const struct job *job = argument;
  const size_t classes = trainer_class_count(job->model);
  double *row = calloc(classes, sizeof *row);
  for (int i = 0; i < job->images; ++i) {
    const int picture = (job->first + i) % kPictures;
    if (!predict(job->model, picture, row) ||
        memcmp(row, job->expected + (size_t)picture * classes, classes * sizeof *row) != 0) {
      atomic_fetch_add(job->wrong, 1);
    }
    atomic_fetch_add(job->done, 1);
  }
  free(row);
  return NULL;
}

/* The memory of this process. */
static long resident(void) {
  long total = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &total, &pages) != 2) pages = 0;
  if (file != NULL) fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

int predict_from_threads(const char *run, int threads, int images, long *growth) {
  trainer_model *model = NULL;
  trainer_error error;
  if (trainer_open(run, NULL, &model, &error) != TRAINER_OK) {
    fprintf(stderr, "%s\n", error.message);
    return -1;
  }
  const size_t classes = trainer_class_count(model);
  double *expected = calloc(kPictures * classes, sizeof *expected);
  atomic_int done = 0, wrong = 0;
  for (int i = 0; i < kPictures; ++i) {
    if (!predict(model, i, expected + (size_t)i * classes)) atomic_fetch_add(&wrong, 1);
  }
  pthread_t started[kMostThreads];
  struct job jobs[kMostThreads];
  for (int i = 0; i < threads; ++i) {
    jobs[i] = (struct job){model, expected, images, i, &done, &wrong};
    pthread_create(&started[i], NULL, work, &jobs[i]);
  }
  while (atomic_load(&done) < threads * images / 4) usleep(1000);
  const long before = resident();
  while (atomic_load(&done) < threads * images) usleep(1000);
  *growth = resident() - before;
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  free(expected);
  trainer_close(model);
  return atomic_load(&wrong);
}
