// Resolves the padding of windows to pixels. Internal to model.
#pragma once

#include "base/types.h"
#include "config/sections/layers.h"
#include "graph/window.h"

namespace trainer::model {

// Returns a window over the image `input` with its padding in pixels.
graph::Window resolve_window(const config::Pair& size, const config::Pair& strides,
                             const config::Pair& dilation, const config::Padding& padding,
                             const Shape& input);

}  // namespace trainer::model
