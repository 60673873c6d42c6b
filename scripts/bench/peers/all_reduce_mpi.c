/* One rank of the all-reduce benchmark under Open MPI: all_reduce_mpi SECONDS BYTES...; prints what all_reduce.cpp prints. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  static double times[1 << 20];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 2; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    const int count = bytes >= 4 ? (int)(bytes / 4) : 1;
    float* values = calloc((size_t)count, sizeof(float));
    int taken = 0, more = 1;
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double end = MPI_Wtime() + atof(argv[1]);
    while (more) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      times[taken++] = MPI_Wtime() - start;
      more = (MPI_Wtime() < end || taken < 5) && taken < 1 << 20;
      MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(times, (size_t)taken, sizeof *times, compare);
    if (rank == 0) printf("{\"event\": \"measured\", \"bytes\": %ld, \"seconds\": %g}\n", bytes, times[taken / 2]);
    free(values);
  }
  MPI_Finalize();
  return 0;
}
