// Communicators for ranks that are threads of one process, which sum through memory.
#pragma once

#include <memory>
#include <vector>

#include "cluster/communicator.h"

namespace trainer::cluster {

// One communicator for each of `ranks` threads. `outer`, if not null, connects this process to
// other processes and must outlive the result: rank r here is then rank outer->rank() * ranks + r
// of outer->size() * ranks. Sums are taken in memory first; then the thread of rank 0 calls
// `outer`. Every process must have the same number of ranks.
//
// all_reduce_tree() also sums in memory first, as far as this process has all leaves of a block.
//
// Sums are taken in the order of a binary tree over the ranks. A call with another size than rank
// 0's throws std::logic_error.
std::vector<std::unique_ptr<Communicator>> make_local_group(int ranks,
                                                            Communicator* outer = nullptr);

}  // namespace trainer::cluster
