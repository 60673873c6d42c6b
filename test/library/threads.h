/* Predictions from many threads with one handle, as a program in C makes them. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Predicts `images` pictures of 40 x 36 pixels from each of `threads` threads, one per call, and
 * compares each with the prediction of the same picture before. Returns the number of calls that
 * failed or gave other bits, and writes by how many bytes the process grew after a quarter of the
 * calls. */
int predict_from_threads(const char* run, int threads, int images, long* growth);

#ifdef __cplusplus
}
#endif
