#include "config/sections/model.h"

#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor& v, DenseClassifier& s) {
  v.located(s.loc);
  v("hidden_units", s.hidden_units, "Outputs of each hidden layer, e.g. [256, 32].",
    at_least(1).items(1).required());
  v("activation", s.activation, "Function after each hidden layer.");
  v("dropout", s.dropout, "Dropout rate after each hidden layer, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn));
  v("kernel_initializer", s.kernel_initializer, "Initializer of the kernels.", warn_on_resume());
}

static void fields(FieldVisitor& v, Unfreeze& s) {
  v.located(s.loc);
  v("at", s.at, "Steps or epochs of training after which the frozen layers change, e.g. 3 epochs.",
    no_seconds().required());
  v("freeze", s.freeze,
    "Layers that stay frozen after the change, as in backbone.freeze; none when left out.",
    warn_on_resume());
  v("learning_rate_multiplier", s.learning_rate_multiplier,
    "Factor of the learning rate after the change.", above(0));
}

static void fields(FieldVisitor& v, Backbone& s) {
  v.located(s.loc);
  v("name", s.name, "The network; `trainer models` lists them.", any().required().shorthand());
  v("variant", s.variant,
    "The library whose network it is: keras, torchvision, timm, timm_tf (timm's tf_ networks, with "
    "the padding and epsilon of TensorFlow) or transformers. When left out, that of the name of "
    "the weights, of config.json beside their file, or of the names in the file; without weights "
    "the first that `trainer models` lists.");
  v("weights", s.weights,
    "imagenet, a name such as timm/resnet50.a1_in1k, torchvision/resnet50.IMAGENET1K_V2 or "
    "microsoft/resnet-50, or a file with weights of the backbone: Keras .h5, .weights.h5 or "
    ".keras, PyTorch .pth, .safetensors or .npz, the last three with the names of the variant; "
    "random when left out.",
    free_on_resume());
  v("alpha", s.alpha, "mobilenet_v2 and mobilenet_v3: factor of the number of channels.", above(0));
  v("include_top", s.include_top, "Whether the classifier of the backbone is included.");
  v("pooling", s.pooling,
    "Pooling at the end of the backbone: none, avg, max or, of vit and dinov2, token (the class "
    "token). none gives the features at all positions.");
  v("freeze", s.freeze,
    "Layers that are not trained: a slice of Keras's layer list such as \"[:-4]\", a name with *, "
    "? and classes such as \"block[1-6]*\", a list of slices and names, a number of first layers, "
    "all or none; none when left out.",
    warn_on_resume());
  v("unfreeze", s.unfreeze,
    "Later changes of freeze: {at: 3 epochs, freeze: \"[:-20]\"}, or a list of such; none when "
    "left out.",
    warn_on_resume().allow_scalar());
  v("batch_norm", s.batch_norm,
    "Trained layers normalise with the batch (train) or with the moving statistics, which then "
    "stay (eval).",
    warn_on_resume());
  v("drop_path", s.drop_path,
    "Stochastic depth, Keras's drop_connect_rate: the share of the samples that skip the last "
    "residual block in training, rising linearly from 0 at the first block. When left out, 0.2 for "
    "efficientnet, as in Keras, and 0 for others.",
    below(0, 1).on_resume(Resume::kWarn));
  v("allow_missing", s.allow_missing,
    "Tensors that the file need not have, such as \"predictions/*\"; none when left out.",
    free_on_resume());
}

static void fields(FieldVisitor& v, Focal& s) {
  v("gamma", s.gamma, "Power of 1 - p, where p is the probability of the true class.",
    at_least(0).shorthand());
  v("alpha", s.alpha,
    "softmax_cross_entropy: a factor of the loss, 0.25 when left out. binary_cross_entropy: the "
    "weight of class 1, while class 0 has 1 - alpha; none when left out.",
    within(0, 1));
}

void fields(FieldVisitor& v, Model& s) {
  v.located(s.loc);
  v("input", s.input,
    "Image as [height, width, channels]; the data set's own when left out, of image files with a "
    "backbone [224, 224, 3].",
    at_least(1).items(3, 3));
  v("layers", s.layers, "The layers of the model, from its input to its logits.",
    any().unless_empty());
  v("dense_classifier", s.dense_classifier,
    "Premade: flatten, hidden dense layers, one logit per class.");
  v("backbone", s.backbone, "A network of Keras's applications, with pretrained weights.");
  v("head", s.head, "The layers after the backbone, in order.", any().unless_empty());
  v.group({"layers", "dense_classifier", "backbone"}, true);
  v("weights", s.weights,
    "What to start from, in place of backbone.weights too: a run folder (its best checkpoint, else "
    "the newest), or a name or a file with weights of all layers, as in backbone.weights.",
    free_on_resume());
  v("weights_entry", s.weights_entry,
    "The entry of a PyTorch file with several state dicts that holds the weights. When left out, "
    "the first that there is of state_dict_ema, model_ema, ema_state_dict, state_dict and model.",
    free_on_resume());
  v("allow_missing", s.allow_missing, "Tensors that the file need not have; none when left out.",
    free_on_resume());
  v("loss", s.loss,
    "Loss that training minimizes, on logits. binary_cross_entropy: two classes have one logit; "
    "more classes, or several labels per image, have one each, whose sigmoid is the probability of "
    "this class against all others, so that their sum is not 1. Its loss is the mean over them.");
  v("label_smoothing", s.label_smoothing, "Share of the label spread over all classes, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn));
  v("target_threshold", s.target_threshold,
    "binary_cross_entropy: targets above it, after label_smoothing and mixing, count as 1 and "
    "others as 0 (timm's bce_target_thresh); none when left out.",
    below(0, 1).on_resume(Resume::kWarn));
  v("focal", s.focal,
    "Focal loss: the cross-entropy times (1 - p)^gamma, so that easy samples count less; none when "
    "left out.",
    warn_on_resume());
}

}  // namespace trainer::config
