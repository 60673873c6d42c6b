// Layers of tokens and attention, as overloads of the function that layers.cpp has for each layer.
// Internal to model.
#pragma once

#include "model/layer_site.h"

namespace trainer::model {

graph::ValueId add(const config::PatchEmbeddingLayer& layer, LayerSite& site);
graph::ValueId add(const config::PrependTokensLayer& layer, LayerSite& site);
graph::ValueId add(const config::PositionEmbeddingLayer& layer, LayerSite& site);
graph::ValueId add(const config::SliceTokensLayer& layer, LayerSite& site);
graph::ValueId add(const config::AttentionLayer& layer, LayerSite& site);
graph::ValueId add(const config::DotProductAttentionLayer& layer, LayerSite& site);
graph::ValueId add(const config::TransformerBlockLayer& layer, LayerSite& site);

}  // namespace trainer::model
