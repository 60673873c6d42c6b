// A Gloo context over a Transport. Inside the folder.
// Reasons: lib/decisions/cluster.md#gloo-runs-on-our-connections.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Returns a context with which Gloo's algorithms send and receive through `transport`, which must
// outlive it. The thread that calls an algorithm moves the bytes. Errors are those of Transport.
std::shared_ptr<gloo::Context> make_gloo_context(Transport& transport);

}  // namespace trainer::cluster
