/* Prints the class and the probability of image files: classify RUN IMAGES... */
#include <stdio.h>
#include <stdlib.h>
#include <trainer.h>

int main(int count, char **words) {
  if (count < 3) {
    fprintf(stderr, "usage: classify RUN IMAGES...\n");
    return 2;
  }
  trainer_model *model = NULL;
  trainer_error error;
  if (trainer_open(words[1], NULL, &model, &error) != TRAINER_OK) {
    fprintf(stderr, "error: %s\n", error.message);
    return (int)error.code;
  }
  fputs(trainer_notes(model), stderr);

  const size_t images = (size_t)count - 2, classes = trainer_class_count(model);
  trainer_image *given = calloc(images, sizeof *given);
  for (size_t i = 0; given != NULL && i < images; ++i) given[i] = trainer_image_file(words[i + 2]);
  trainer_result *result = NULL;
  if (given == NULL || trainer_predict(model, given, images, &result, &error) != TRAINER_OK) {
    fprintf(stderr, "error: %s\n", given == NULL ? "out of memory" : error.message);
    free(given);
    trainer_close(model);
    return 4;
  }
  int failed = 0;
  for (size_t i = 0; i < images; ++i) {
    const char *reason = trainer_image_error(result, i);
    const int32_t predicted = trainer_classes(result)[i];
    if (reason != NULL) {
      fprintf(stderr, "skipped: %s\n", reason);
      failed = 3;
    } else if (predicted >= 0) {
      printf("%s %s %.17g\n", words[i + 2], trainer_class_name(model, (size_t)predicted),
             trainer_probabilities(result)[i * classes + (size_t)predicted]);
    }
  }
  trainer_free(result);
  free(given);
  trainer_close(model);
  return failed;
}
