// Ranks that are threads of one process: their sums go through memory.
#pragma once

#include <memory>
#include <vector>

#include "cluster/communicator.h"

namespace trainer::cluster {

// The communicators of `ranks` threads, one each. With `outer`, this process's communicator to
// others, which must outlive them, rank r here is rank outer->rank() * ranks + r of
// outer->size() * ranks: sums are taken in memory first, and the thread of rank 0 then calls
// `outer`. Every process must have the same number of ranks.
//
// Sums are taken in the order of a binary tree over the ranks where their number is a power of two,
// in rank order otherwise. A call with another size than rank 0's throws std::logic_error.
std::vector<std::unique_ptr<Communicator>> make_local_group(int ranks,
                                                            Communicator* outer = nullptr);

}  // namespace trainer::cluster
