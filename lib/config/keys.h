// Names of config keys that code outside the field lists looks up, reports or sets. A test holds
// each against the keys of the field lists.
#pragma once

namespace trainer::config::keys {

inline constexpr char kBackbone[] = "model.backbone";
inline constexpr char kBackboneAlpha[] = "model.backbone.alpha";
inline constexpr char kBackboneFreeze[] = "model.backbone.freeze";
inline constexpr char kBackboneName[] = "model.backbone.name";
inline constexpr char kBackboneUnfreeze[] = "model.backbone.unfreeze";
inline constexpr char kBackboneVariant[] = "model.backbone.variant";
inline constexpr char kBackboneWeights[] = "model.backbone.weights";
inline constexpr char kCollective[] = "parallel.collective";
inline constexpr char kBucketMb[] = "parallel.bucket_mb";
inline constexpr char kCacheFeatures[] = "train.cache_features";
inline constexpr char kChannels[] = "data.channels";
inline constexpr char kClasses[] = "data.classes";
inline constexpr char kCropFraction[] = "data.crop_fraction";
inline constexpr char kData[] = "data";
inline constexpr char kDataThreads[] = "data.threads";
inline constexpr char kEpochs[] = "train.epochs";
inline constexpr char kEvaluateBatchSize[] = "evaluate.batch_size";
inline constexpr char kEvaluateTimeout[] = "evaluate.timeout_secs";
inline constexpr char kFit[] = "data.fit";
inline constexpr char kGpus[] = "parallel.gpus";
inline constexpr char kInterpolation[] = "data.interpolation";
inline constexpr char kLanes[] = "parallel.lanes";
inline constexpr char kLrScaling[] = "parallel.lr_scaling";
inline constexpr char kMaxStaleness[] = "parallel.max_staleness";
inline constexpr char kMaxSteps[] = "train.max_steps";
inline constexpr char kModelInput[] = "model.input";
inline constexpr char kNormalize[] = "data.normalize";
inline constexpr char kNumClasses[] = "data.num_classes";
inline constexpr char kPrefetch[] = "data.prefetch";
inline constexpr char kPreprocess[] = "data.preprocess";
inline constexpr char kReplicas[] = "parallel.replicas";
inline constexpr char kResize[] = "data.resize";
inline constexpr char kRunDir[] = "run.dir";
inline constexpr char kSeed[] = "seed";
inline constexpr char kShard[] = "parallel.shard";
inline constexpr char kStrategy[] = "parallel.strategy";
inline constexpr char kThreads[] = "parallel.threads";
inline constexpr char kTrainBatchSize[] = "train.batch_size";
inline constexpr char kWeights[] = "model.weights";

}  // namespace trainer::config::keys
