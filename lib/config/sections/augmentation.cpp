#include "config/sections/augmentation.h"

#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor& v, RandomFlipHorizontal& s) {
  v("probability", s.probability, "Share of the images that are mirrored.",
    within(0, 1).shorthand());
}

static void fields(FieldVisitor& v, RandomFlipVertical& s) {
  v("probability", s.probability, "Share of the images that are mirrored.",
    within(0, 1).shorthand());
}

static void fields(FieldVisitor& v, RandomResizedCrop& s) {
  v("scale", s.scale, "Least and largest share of the area of the image.",
    Rule{.low = 0, .high = 1, .low_open = true}.items(2, 2).not_empty());
  v("ratio", s.ratio, "Least and largest ratio of width to height.",
    above(0).items(2, 2).not_empty());
}

static void fields(FieldVisitor& v, RandomCrop& s) {
  v("padding", s.padding, "Pixels that are added on every side first.",
    within(1, 1024).shorthand());
  v("fill", s.fill, "Value of the added pixels, 0 to 255.", within(0, 255));
}

static void fields(FieldVisitor& v, RandomGrayscale& s) {
  v("probability", s.probability, "Share of the images that lose their colours.",
    within(0, 1).shorthand());
}

static void fields(FieldVisitor& v, GaussianBlur& s) {
  v("kernel_size", s.kernel_size, "Pixels each way that a pixel is averaged over; odd.",
    within(1, 63).shorthand());
  v("sigma", s.sigma, "Least and largest standard deviation of the Gaussian in pixels.",
    above(0).items(2, 2).not_empty());
}

static void fields(FieldVisitor& v, RandAugment& s) {
  v("num_ops", s.num_ops, "Number of operations that each image goes through.", within(1, 16));
  v("magnitude", s.magnitude, "Strength of the operations, from 0 to num_magnitude_bins - 1.",
    at_least(0));
  v("num_magnitude_bins", s.num_magnitude_bins, "Number of strengths that an operation can have.",
    within(2, 1000));
}

static void fields(FieldVisitor& v, TrivialAugment& s) {
  v("num_magnitude_bins", s.num_magnitude_bins, "Number of strengths that an operation can have.",
    within(2, 1000));
}

static void fields(FieldVisitor& v, AutoAugment& s) {
  v("policy", s.policy, "The data set that the list of operations was found for.",
    any().shorthand());
}

static void fields(FieldVisitor& v, TimmRandAugment& s) {
  v("magnitude", s.magnitude, "How strong the operations are; 10 is full strength (m).",
    at_least(0));
  v("num_ops", s.num_ops, "Operations that are drawn for an image (n).", within(1, 16));
  v("probability", s.probability, "Share of the drawn operations that are applied (p).",
    within(0, 1));
  v("magnitude_std", s.magnitude_std,
    "Standard deviation of the magnitude of an operation (mstd), which is cut to [0, "
    "max_magnitude]; above 100 it is uniform from 0 to magnitude.",
    at_least(0));
  v("max_magnitude", s.max_magnitude, "Largest magnitude that an operation gets (mmax).", above(0));
  v("increasing", s.increasing,
    "Whether every operation is stronger at a higher magnitude (inc1). Otherwise posterize and "
    "solarize are weaker, and color, contrast, brightness and sharpness run from less to more.");
}

static void fields(FieldVisitor& v, RandomRotation& s) {
  v("degrees", s.degrees, "Largest angle to either side, in degrees.",
    within(0, 180).required().shorthand());
}

static void fields(FieldVisitor& v, RandomShift& s) {
  v("height", s.height, "Largest move up or down, as a share of the height.", within(0, 1));
  v("width", s.width, "Largest move to a side, as a share of the width.", within(0, 1));
}

static void fields(FieldVisitor& v, RandomZoom& s) {
  v("factor", s.factor, "The size is multiplied by a number in [1 - factor, 1 + factor].",
    below(0, 1).shorthand());
}

static void fields(FieldVisitor& v, Brightness& s) {
  v("factor", s.factor, "Pixels are multiplied by a number in [1 - factor, 1 + factor].",
    at_least(0).shorthand());
}

static void fields(FieldVisitor& v, Contrast& s) {
  v("factor", s.factor,
    "The distance to the mean grey is multiplied by a number in [1 - factor, 1 + factor].",
    at_least(0).shorthand());
}

static void fields(FieldVisitor& v, Saturation& s) {
  v("factor", s.factor,
    "The distance to the pixel's grey is multiplied by a number in [1 - factor, 1 + factor].",
    at_least(0).shorthand());
}

static void fields(FieldVisitor& v, Hue& s) {
  v("factor", s.factor, "Largest turn of the hue, as a share of the circle.",
    within(0, 0.5).shorthand());
}

static void fields(FieldVisitor& v, RandomErasing& s) {
  v("probability", s.probability, "Share of the images with an erased part.", within(0, 1));
  v("scale", s.scale, "Least and largest share of the area of the image.",
    within(0, 1).items(2, 2).not_empty());
  v("ratio", s.ratio, "Least and largest ratio of height to width.",
    above(0).items(2, 2).not_empty());
  v("mode", s.mode,
    "The erased pixels. value: the key value. The others are timm's --remode, numbers of the "
    "normalized image, which are cut to those of pixels: const: 0; rand: one from N(0, 1) for each "
    "channel of the part; pixel: one for each pixel and channel, as in torchvision's value: "
    "random.");
  v("value", s.value, "Value of the erased pixels, 0 to 255.", within(0, 255));
}

// MixUp and CutMix have these keys.
template <class M>
static void mixing_fields(FieldVisitor& v, M& s) {
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha).", above(0).shorthand());
  v("epochs", s.epochs,
    "Epochs after which it ends (timm's mixup_off_epoch); it lasts when left out.", within(1, 1e6));
}

static void fields(FieldVisitor& v, MixUp& s) { mixing_fields(v, s); }

static void fields(FieldVisitor& v, CutMix& s) { mixing_fields(v, s); }

void fields(FieldVisitor& v, Augmentation& s) {
  v.definition("augmentation");
  v.located(s.loc);
  v.choice("an augmentation", true);
  kind<RandomFlipHorizontal>(v, s.kind, "random_flip_horizontal",
                             "Mirrors some of the images, so that left and right are swapped.");
  kind<RandomFlipVertical>(v, s.kind, "random_flip_vertical",
                           "Mirrors some of the images, so that top and bottom are swapped.");
  kind<RandomResizedCrop>(v, s.kind, "random_resized_crop",
                          "A random part of the file's image, resized; stands first.");
  kind<RandomRotation>(v, s.kind, "random_rotation",
                       "Turns each image about its centre by a random angle.");
  kind<RandomShift>(v, s.kind, "random_shift",
                    "Moves each image up or down and to a side by a random distance.");
  kind<RandomZoom>(v, s.kind, "random_zoom",
                   "Enlarges or shrinks each image about its centre by a random factor.");
  kind<Brightness>(v, s.kind, "brightness",
                   "Makes each image darker or brighter by a random factor.");
  kind<Contrast>(v, s.kind, "contrast", "Changes the contrast of each image by a random factor.");
  kind<Saturation>(v, s.kind, "saturation",
                   "Makes the colours of each image paler or more vivid by a random factor.");
  kind<Hue>(v, s.kind, "hue", "Turns the hue of each image by a random angle.");
  kind<RandomErasing>(v, s.kind, "random_erasing", "A rectangle filled with a value or noise.");
  kind<RandomCrop>(v, s.kind, "random_crop",
                   "Padded, and a part of the image's size cut out, as for CIFAR.");
  kind<RandomGrayscale>(v, s.kind, "random_grayscale", "Makes some of the images grey.");
  kind<GaussianBlur>(v, s.kind, "gaussian_blur",
                     "Blurs each image with a Gaussian of random width.");
  kind<RandAugment>(v, s.kind, "rand_augment",
                    "torchvision's RandAugment: random operations of one strength.");
  kind<TrivialAugment>(
      v, s.kind, "trivial_augment",
      "torchvision's TrivialAugmentWide: one random operation of random strength.");
  kind<AutoAugment>(
      v, s.kind, "auto_augment",
      "torchvision's AutoAugment: pairs of operations that were found for a data set.");
  kind<TimmRandAugment>(
      v, s.kind, "timm_rand_augment",
      "timm's RandAugment, --aa rand-...: its operations, interpolated, with what "
      "is beyond the edges 0 after normalization.");
  kind<MixUp>(v, s.kind, "mixup", "Image and label averaged with another sample's; stands last.");
  kind<CutMix>(v, s.kind, "cutmix",
               "A rectangle of another sample's image, and its share of the label; stands last.");
}

}  // namespace trainer::config
