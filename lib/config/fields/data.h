// The keys of data: splits, random changes, images.
#pragma once

#include "config/fields/kind.h"
#include "config/rule.h"

namespace trainer::config {

template <class V>
void fields(V& v, RandomFlipHorizontal& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are mirrored; default 0.5.",
    within(0, 1));
}

template <class V>
void fields(V& v, RandomFlipVertical& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are turned over; default 0.5.",
    within(0, 1));
}

template <class V>
void fields(V& v, RandomResizedCrop& s) {
  v("scale", s.scale, "Least and largest share of the area; default [0.08, 1].",
    Rule{.low = 0, .high = 1, .low_open = true}.items(2, 2));
  v("ratio", s.ratio, "Least and largest width / height; default [0.75, 1.333].",
    above(0).items(2, 2));
}

template <class V>
void fields(V& v, RandomRotation& s) {
  v.shorthand("degrees");
  v("degrees", s.degrees, "Largest angle to either side, in degrees.", within(0, 180).must());
}

template <class V>
void fields(V& v, RandomShift& s) {
  v("height", s.height, "Largest move up or down, as a share of the height; default 0.1.",
    within(0, 1));
  v("width", s.width, "Largest move to a side, as a share of the width; default 0.1.",
    within(0, 1));
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
  v("factor", s.factor, "The distance to the mean grey is multiplied likewise; default 0.2.",
    at_least(0));
}

template <class V>
void fields(V& v, Saturation& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The distance to the pixel's grey is multiplied likewise; default 0.2.",
    at_least(0));
}

template <class V>
void fields(V& v, Hue& s) {
  v.shorthand("factor");
  v("factor", s.factor, "Largest turn of the hue, as a share of the circle; default 0.05.",
    within(0, 0.5));
}

template <class V>
void fields(V& v, RandomErasing& s) {
  v("probability", s.probability, "Share of the images with an erased part; default 0.5.",
    within(0, 1));
  v("scale", s.scale, "Least and largest share of the area; default [0.02, 0.33].",
    within(0, 1).items(2, 2));
  v("ratio", s.ratio, "Least and largest height / width; default [0.3, 3.3].",
    above(0).items(2, 2));
  v("value", s.value, "Value of the erased pixels, 0 to 255; default 0.", within(0, 255));
}

template <class V>
void fields(V& v, MixUp& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha); default 1.", above(0));
}

template <class V>
void fields(V& v, CutMix& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha); default 1.", above(0));
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
  kind<MixUp>(v, s.kind, "mixup", "Image and label averaged with another sample's; stands last.");
  kind<CutMix>(v, s.kind, "cutmix",
               "A rectangle of another sample's image, and its share of the label; stands last.");
}

template <class V>
void fields(V& v, Split& s) {
  v.definition("split");
  v.located(s.loc);
  v.shorthand("path");
  v("path", s.path,
    "A folder with the four MNIST-named files (idx) or one folder a class (image_folder), an .npz "
    "file or a .csv file.",
    any());
  v("images", s.images, "The file with the images (idx, npy), or the array's name in the .npz.",
    any());
  v("labels", s.labels, "The file with the labels (idx, npy), or the array's name in the .npz.",
    any());
  v("glob", s.glob,
    "image_folder: the files, e.g. train/**/*.jpeg; the folder a file is in names its class.",
    any());
  v("augment", s.augment, "Random changes of the training images, in order; default none.", any());
}

template <class V>
void fields(V& v, Synthetic& s) {
  v("shape", s.shape, "Image as [height, width, channels]; default [28, 28, 1].",
    at_least(1).items(3, 3).not_empty());
  v("classes", s.classes, "Number of classes; default 10.", at_least(1));
  v("train_samples", s.train_samples, "Training samples; default 4096.", at_least(1));
  v("test_samples", s.test_samples, "Test samples; default 1024.", at_least(0));
}

template <class V>
void fields(V& v, Normalize& s) {
  v("scale", s.scale, "Pixels are multiplied by this first; default 1/255.", any());
  v("mean", s.mean, "Then this is subtracted: one number or one per channel; default 0.", any());
  v("std", s.std, "Then they are divided by this: one number or one per channel; default 1.",
    above(0));
  v("reverse_channels", s.reverse_channels,
    "Whether RGB becomes BGR first, so that mean and std count in BGR; default false.", any());
}

template <class V>
void fields(V& v, Data& s) {
  v.located(s.loc);
  v("format", s.format, "How the files are written; default idx.", any());
  v("path", s.path, "Folder of all splits.", any());
  v("classes", s.classes, "Class names in label order; \"0\", \"1\", ... when left out.", any());
  v("num_classes", s.num_classes, "Number of classes; known from names or labels when left out.",
    at_least(1));
  v("train", s.train, "Where the training samples are.", any());
  v("validation", s.validation, "Where the validation samples are; default none.", any());
  v("test", s.test, "Where the test samples are; default none.", any());
  v("validation_split", s.validation_split,
    "Fraction of the training samples set aside for validation, in [0, 1); default 0.",
    below(0, 1));
  v("limit", s.limit,
    "Use only N training samples: the first of arrays; of image files a set drawn by the "
    "seed, each class having its share. Default all.",
    at_least(1));
  v("normalize", s.normalize, "From pixels to numbers: (x * scale - mean) / std.", any());
  v("preprocess", s.preprocess, "A preset of normalize: tf, caffe, torch, scale or none.", any());
  v.group({"normalize", "preprocess"}, false);
  v("synthetic", s.synthetic, "Size of the random data of format synthetic.", any());
  v("resize", s.resize, "Size of the images as [height, width]; model.input's when left out.",
    at_least(1).items(2, 2));
  v("channels", s.channels, "1 (grey) or 3 (RGB); model.input's, or 3, when left out.",
    within(1, 3));
  v("interpolation", s.interpolation, "How images are resized; default bilinear.", any());
  v("antialias", s.antialias,
    "Whether shrinking averages over all pixels, as Pillow and torchvision do, or reads only the "
    "nearest, as tf.image.resize does; default true.",
    any());
  v("fit", s.fit, "stretch to the size, or crop: shorter side, then centre; default stretch.",
    any());
  v("crop_fraction", s.crop_fraction,
    "Share of the shorter side that fit: crop keeps, e.g. 0.875; default 1.",
    {.low = 0, .high = 1, .low_open = true});
  v("scaled_decode", s.scaled_decode,
    "Whether JPEGs are decoded at 1/2, 1/4 or 1/8 where that is large enough; default true.",
    any());
  v("on_error", s.on_error, "What a damaged file leads to; default fail.", any());
  v("error_budget", s.error_budget,
    "Damaged files that on_error lets pass, a share of all when below 1; default 0.01.",
    at_least(0));
  v("cache", s.cache, "Where decoded images are kept; default none.", any());
  v("cache_dir", s.cache_dir,
    "Folder of cache: disk, and of what on_error: skip has found of the files; default cache.",
    any());
  v("max_pixels", s.max_pixels, "Largest image that is decoded; default 100 million.", at_least(1));
  v("max_file_size", s.max_file_size, "Largest image file in bytes; default 256 MiB.", at_least(1));
  v("shuffle", s.shuffle, "Whether each epoch has an order of its own; default true.", any());
  v("prefetch", s.prefetch,
    "Batches kept ready ahead; 0: one thread reads each when it is wanted; chosen when left out.",
    at_least(0));
  v("threads", s.threads, "Threads that load; chosen when left out.", at_least(1));
}

}  // namespace trainer::config
