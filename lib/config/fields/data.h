// The keys of data: splits, random changes, images.
#pragma once

#include "config/fields/alternative.h"
#include "config/rule.h"

namespace trainer::config {

template <class V>
void fields(V& v, RandomFlipHorizontal& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are mirrored.", within(0, 1));
}

template <class V>
void fields(V& v, RandomFlipVertical& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are turned over.", within(0, 1));
}

template <class V>
void fields(V& v, RandomResizedCrop& s) {
  v("scale", s.scale, "Least and largest share of the area.",
    Rule{.low = 0, .high = 1, .low_open = true}.items(2, 2));
  v("ratio", s.ratio, "Least and largest width / height.", above(0).items(2, 2));
}

template <class V>
void fields(V& v, RandomCrop& s) {
  v.shorthand("padding");
  v("padding", s.padding, "Pixels that are added on every side first.", within(1, 1024));
  v("fill", s.fill, "Value of these pixels, 0 to 255.", within(0, 255));
}

template <class V>
void fields(V& v, RandomGrayscale& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that lose their colours.", within(0, 1));
}

template <class V>
void fields(V& v, GaussianBlur& s) {
  v.shorthand("kernel_size");
  v("kernel_size", s.kernel_size, "Pixels each way that a pixel is averaged over; odd.",
    within(1, 63));
  v("sigma", s.sigma, "Least and largest standard deviation.", above(0).items(2, 2));
}

template <class V>
void fields(V& v, RandAugment& s) {
  v("num_ops", s.num_ops, "Operations an image goes through.", within(1, 16));
  v("magnitude", s.magnitude, "How strong they are, of num_magnitude_bins.", at_least(0));
  v("num_magnitude_bins", s.num_magnitude_bins, "Number of strengths.", within(2, 1000));
}

template <class V>
void fields(V& v, TrivialAugment& s) {
  v("num_magnitude_bins", s.num_magnitude_bins, "Number of strengths.", within(2, 1000));
}

template <class V>
void fields(V& v, AutoAugment& s) {
  v.shorthand("policy");
  v("policy", s.policy, "The data set that the list of operations was found for.", any());
}

template <class V>
void fields(V& v, RandomRotation& s) {
  v.shorthand("degrees");
  v("degrees", s.degrees, "Largest angle to either side, in degrees.", within(0, 180).must());
}

template <class V>
void fields(V& v, RandomShift& s) {
  v("height", s.height, "Largest move up or down, as a share of the height.", within(0, 1));
  v("width", s.width, "Largest move to a side, as a share of the width.", within(0, 1));
}

template <class V>
void fields(V& v, RandomZoom& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The size is multiplied by a number in [1 - factor, 1 + factor].",
    below(0, 1));
}

template <class V>
void fields(V& v, Brightness& s) {
  v.shorthand("factor");
  v("factor", s.factor, "Pixels are multiplied by a number in [1 - factor, 1 + factor].",
    at_least(0));
}

template <class V>
void fields(V& v, Contrast& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The distance to the mean grey is multiplied likewise.", at_least(0));
}

template <class V>
void fields(V& v, Saturation& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The distance to the pixel's grey is multiplied likewise.", at_least(0));
}

template <class V>
void fields(V& v, Hue& s) {
  v.shorthand("factor");
  v("factor", s.factor, "Largest turn of the hue, as a share of the circle.", within(0, 0.5));
}

template <class V>
void fields(V& v, RandomErasing& s) {
  v("probability", s.probability, "Share of the images with an erased part.", within(0, 1));
  v("scale", s.scale, "Least and largest share of the area.", within(0, 1).items(2, 2));
  v("ratio", s.ratio, "Least and largest height / width.", above(0).items(2, 2));
  v("value", s.value, "Value of the erased pixels, 0 to 255.", within(0, 255));
}

template <class V>
void fields(V& v, MixUp& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha).", above(0));
}

template <class V>
void fields(V& v, CutMix& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha).", above(0));
}

template <class V>
void fields(V& v, Augmentation& s) {
  v.definition("augmentation");
  v.located(s.loc);
  v.choice("an augmentation", true);
  kind<RandomFlipHorizontal>(v, s.kind, "random_flip_horizontal", "Left and right swapped.");
  kind<RandomFlipVertical>(v, s.kind, "random_flip_vertical", "Top and bottom swapped.");
  kind<RandomResizedCrop>(v, s.kind, "random_resized_crop",
                          "A random part of the file's image, resized; stands first.");
  kind<RandomRotation>(v, s.kind, "random_rotation", "Turned about the centre.");
  kind<RandomShift>(v, s.kind, "random_shift", "Moved.");
  kind<RandomZoom>(v, s.kind, "random_zoom", "Enlarged or shrunk about the centre.");
  kind<Brightness>(v, s.kind, "brightness", "Darker or brighter.");
  kind<Contrast>(v, s.kind, "contrast", "Less or more contrast.");
  kind<Saturation>(v, s.kind, "saturation", "Paler or more vivid.");
  kind<Hue>(v, s.kind, "hue", "Other colours.");
  kind<RandomErasing>(v, s.kind, "random_erasing", "A rectangle filled with one value.");
  kind<RandomCrop>(v, s.kind, "random_crop",
                   "Padded, and a part of the image's size cut out, as for CIFAR.");
  kind<RandomGrayscale>(v, s.kind, "random_grayscale", "Without colours.");
  kind<GaussianBlur>(v, s.kind, "gaussian_blur", "Blurred.");
  kind<RandAugment>(v, s.kind, "rand_augment", "torchvision's RandAugment.");
  kind<TrivialAugment>(v, s.kind, "trivial_augment", "torchvision's TrivialAugmentWide.");
  kind<AutoAugment>(v, s.kind, "auto_augment", "torchvision's AutoAugment.");
  kind<MixUp>(v, s.kind, "mixup", "Image and label averaged with another sample's; stands last.");
  kind<CutMix>(v, s.kind, "cutmix",
               "A rectangle of another sample's image, and its share of the label; stands last.");
}

template <class V>
void fields(V& v, SplitFiles& s) {
  v.definition("split");
  v.located(s.loc);
  v.shorthand("path");
  v("path", s.path,
    "A folder with the four MNIST-named files (idx) or one folder a class (image_folder), an .npz "
    "file or a .csv file.",
    free());
  v("images", s.images, "The file with the images (idx, npy), or the array's name in the .npz.",
    free());
  v("labels", s.labels, "The file with the labels (idx, npy), or the array's name in the .npz.",
    free());
  v("glob", s.glob,
    "image_folder: the files, e.g. train/**/*.jpeg; the folder a file is in names its class.",
    free());
  v("augment", s.augment, "Random changes of the training images, in order; none when left out.",
    any());
}

template <class V>
void fields(V& v, Synthetic& s) {
  v("shape", s.shape, "Image as [height, width, channels].", at_least(1).items(3, 3).not_empty());
  v("classes", s.classes, "Number of classes.", at_least(1));
  v("train_samples", s.train_samples, "Training samples.", at_least(1));
  v("test_samples", s.test_samples, "Test samples.", at_least(0));
}

template <class V>
void fields(V& v, Normalize& s) {
  v("scale", s.scale, "Pixels are multiplied by this first.", any());
  v("mean", s.mean, "Then this is subtracted: one number or one per channel.", any());
  v("std", s.std, "Then they are divided by this: one number or one per channel.", above(0));
  v("reverse_channels", s.reverse_channels,
    "Whether RGB becomes BGR first, so that mean and std count in BGR.", any());
}

template <class V>
void fields(V& v, Csv& s) {
  v("image_column", s.image_column,
    "Name of the column with the paths of the images; a usual name is recognised when left out.",
    any());
  v("label_column", s.label_column,
    "Name of the column with the classes; a usual name is recognised when left out.", any());
  v("weight_column", s.weight_column,
    "Name of the column with what the loss of a sample is multiplied by, in training and in "
    "evaluations; as in Keras, no other metric is weighted. A column named sample_weight is "
    "recognised when left out.",
    any());
  v("separator", s.separator, "Between fields: one character, or tab; found when left out.", any());
  v("root", s.root, "Folder from which paths count; that of the csv file when left out.", free());
  v("ending", s.ending, "Added to every path, such as .png; nothing when left out.", any());
}

template <class V>
void fields(V& v, Data& s) {
  v.located(s.loc);
  v("format", s.format, "How the files are written.", any());
  v("path", s.path, "Folder of all splits.", free());
  v("classes", s.classes, "Class names in label order; \"0\", \"1\", ... when left out.", any());
  v("num_classes", s.num_classes, "Number of classes; known from names or labels when left out.",
    at_least(1));
  v("train", s.train, "Where the training samples are.", any());
  v("validation", s.validation, "Where the validation samples are; none when left out.", any());
  v("test", s.test, "Where the test samples are; none when left out.", any());
  v("validation_split", s.validation_split,
    "Fraction of the training samples set aside for validation, in [0, 1).", below(0, 1));
  v("limit", s.limit,
    "Use only N training samples: the first of arrays; of image files a set drawn by the seed, "
    "each class having its share. All when left out.",
    at_least(1));
  v("normalize", s.normalize, "From pixels to numbers: (x * scale - mean) / std.", same());
  v("preprocess", s.preprocess, "A preset of normalize: tf, caffe, torch, scale or none.", same());
  v.group({"normalize", "preprocess"}, false);
  v("synthetic", s.synthetic, "Size of the random data of format synthetic.", any());
  v("csv", s.csv, "How the lines of a csv file name an image and its class.", any());
  v("resize", s.resize, "Size of the images as [height, width]; model.input's when left out.",
    at_least(1).items(2, 2).on_resume(Resume::kSame));
  v("channels", s.channels, "1 (grey) or 3 (RGB); model.input's, or 3, when left out.",
    within(1, 3).on_resume(Resume::kSame));
  v("interpolation", s.interpolation, "How images are resized.", same());
  v("antialias", s.antialias,
    "Whether shrinking averages over all pixels, as Pillow and torchvision do, or reads only the "
    "nearest, as tf.image.resize does.",
    same());
  v("fit", s.fit, "stretch to the size, or crop: shorter side, then centre.", same());
  v("crop_fraction", s.crop_fraction, "Share of the shorter side that fit: crop keeps, e.g. 0.875.",
    {.low = 0, .high = 1, .low_open = true, .resume = Resume::kSame});
  v("scaled_decode", s.scaled_decode,
    "Whether JPEGs are decoded at 1/2, 1/4 or 1/8 where that is large enough.", any());
  v("on_error", s.on_error, "What a damaged file leads to.", any());
  v("error_budget", s.error_budget,
    "Damaged files that on_error lets pass, a share of all when below 1.", at_least(0));
  v("cache", s.cache, "Where decoded images are kept; none when left out.", free());
  v("cache_dir", s.cache_dir,
    "Folder of cache: disk, and of what on_error: skip has found of the files.", free());
  v("max_pixels", s.max_pixels, "Largest image that is decoded.",
    at_least(1).on_resume(Resume::kFree));
  v("max_file_size", s.max_file_size, "Largest image file in bytes.",
    at_least(1).on_resume(Resume::kFree));
  v("shuffle", s.shuffle, "Whether each epoch has an order of its own.", same());
  v("sampling", s.sampling,
    "uniform: an epoch has each training sample once; balanced: as many samples of each class, of "
    "a rare class repeatedly, of a frequent one not all.",
    same());
  v("repeats", s.repeats,
    "Repeated augmentation: an epoch has this many versions of a sample one after the other, and "
    "as many samples fewer.",
    Rule{.low = 1, .limit = 64}.on_resume(Resume::kSame));
  v("prefetch", s.prefetch,
    "Batches kept ready ahead; 0: one thread reads each when it is wanted; chosen when left out.",
    Rule{.low = 0, .limit = kMostSamples}.on_resume(Resume::kFree));
  v("threads", s.threads, "Threads that load; chosen when left out.",
    count_up_to(kMostThreads).on_resume(Resume::kFree));
}

}  // namespace trainer::config
