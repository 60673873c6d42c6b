// Batch normalisation in training form whose statistics are taken over the samples of all ranks.
#pragma once

#include "cluster/communicator.h"
#include "support/reference.h"

namespace trainer::test {

// Both fill the outputs of `site` as run_op() would with the batch of all ranks, of which this rank
// has its own samples alone: none is allowed. Every rank makes the same calls in the same order.
// Sums that an update adds up over the ranks (of gamma and beta) stay those of this rank.
void batch_norm_over_ranks(const graph::BatchNorm& op, const Site& site,
                           cluster::Communicator& ranks);
void batch_norm_over_ranks(const graph::BatchNormBackward& op, const Site& site,
                           cluster::Communicator& ranks);

}  // namespace trainer::test
