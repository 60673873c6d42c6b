#include "config/sections/data.h"

#include "config/field.h"

namespace trainer::config {

bool divides_training_samples(const Data& data) {
  return data.fold || (data.validation_split > 0 && !data.validation.given());
}

ValidationSplitOrder find_division_order(const Data& data) {
  return data.fold ? ValidationSplitOrder::kStratified : data.validation_split_order;
}

static void fields(FieldVisitor& v, SplitFiles& s) {
  v.definition("split");
  v.located(s.loc);
  v("path", s.path,
    "A folder with the four MNIST-named files (idx) or one folder per class (image_folder, also in "
    "a zip archive: photos.zip, photos.zip/train), an .npz file or a .csv file.",
    free_on_resume().shorthand());
  v("images", s.images, "The file with the images (idx, npy), or the array's name in the .npz.",
    free_on_resume());
  v("labels", s.labels, "The file with the labels (idx, npy), or the array's name in the .npz.",
    free_on_resume());
  v("glob", s.glob,
    "image_folder: the files, e.g. train/**/*.jpeg; the folder a file is in names its class.",
    free_on_resume());
  v("augment", s.augment, "Random changes of the training images, in order; none when left out.");
}

static void fields(FieldVisitor& v, Synthetic& s) {
  v("shape", s.shape, "Image as [height, width, channels].", at_least(1).items(3, 3).not_empty());
  v("classes", s.classes, "Number of classes of the random images.", at_least(1));
  v("train_samples", s.train_samples, "Number of random images to train with.", at_least(1));
  v("test_samples", s.test_samples, "Number of random images to test with.", at_least(0));
}

static void fields(FieldVisitor& v, Normalize& s) {
  v("scale", s.scale, "Factor of the pixels: (x * scale - mean) / std.");
  v("mean", s.mean,
    "Mean of the scaled pixels, which is subtracted: one number, or one per channel.");
  v("std", s.std,
    "Standard deviation of the scaled pixels, a divisor: one number, or one per channel.",
    above(0));
  v("reverse_channels", s.reverse_channels,
    "Whether RGB becomes BGR before mean and std, which then count in BGR.");
}

static void fields(FieldVisitor& v, Csv& s) {
  v("image_column", s.image_column,
    "Name of the column with the paths of the images; a usual name is recognised when left out.");
  v("label_column", s.label_column,
    "Name of the column with the classes; when left out, a usual name is recognised, or columns of "
    "0 and 1, one per class, of which one is 1 in each row. With binary_cross_entropy the columns "
    "are labels, any number of which are 1; an empty cell or nan is unknown and not counted.");
  v("label_separator", s.label_separator,
    "binary_cross_entropy: one character between the labels of a cell, such as '|'. The labels are "
    "data.classes, or all that occur; an empty cell has none. One label per cell when left out.",
    same_on_resume());
  v("uncertain", s.uncertain,
    "binary_cross_entropy: what a cell of -1 in a column of labels counts as, with which some "
    "lists "
    "mark an uncertain label: ignore (unknown), 0 or 1. Such cells are errors when left out.");
  v("weight_column", s.weight_column,
    "Name of the column with what the loss of a sample is multiplied by, in training and in "
    "evaluations; as in Keras, no other metric is weighted. A column named sample_weight is "
    "recognised when left out.");
  v("separator", s.separator,
    "Character between the fields of a line, or tab; found when left out.");
  v("root", s.root, "Folder from which paths count; that of the csv file when left out.",
    free_on_resume());
  v("ending", s.ending,
    "Ending that is added to the path of every image, such as .png; none when left out.");
}

void fields(FieldVisitor& v, Data& s) {
  v.located(s.loc);
  v("format", s.format,
    "Format of the images and labels: idx (files of MNIST), npz (arrays of NumPy), cifar, "
    "tfrecord, webdataset, image_folder (a folder per class), csv (lists of files), digits (a "
    "small data set of the program) or synthetic (random numbers).");
  v("path", s.path,
    "Folder of all splits: folders (csv: files) named train or training; validation, val, valid or "
    "dev; test, testing or eval, in any case, alone or as a word of a name such as seg_train; or "
    "a folder per class. A zip archive of these (image_folder): photos.zip.",
    free_on_resume());
  v("classes", s.classes, "Class names in label order; \"0\", \"1\", ... when left out.");
  v("num_classes", s.num_classes, "Number of classes; known from names or labels when left out.",
    at_least(1));
  v("class_order", s.class_order,
    "Order of the classes that are found: text (0, 1, 10, 2, as in Keras and torchvision) or "
    "number (0, 1, 2, 10; the names must be numbers). When left out, folders are in the order "
    "text, and labels of lists and shards in the order number if all are numbers.",
    same_on_resume());
  v("train", s.train, "Where the training samples are.");
  v("validation", s.validation, "Where the validation samples are; none when left out.");
  v("test", s.test, "Where the test samples are; none when left out.");
  v("validation_split", s.validation_split,
    "Fraction of the training samples set aside for validation, in [0, 1).", below(0, 1));
  v("validation_split_order", s.validation_split_order,
    "Which samples validation_split sets aside: stratified: the same share of every class, drawn "
    "by the seed; last: the last ones in the order of the arrays, of the list or of the folders "
    "and their files, as validation_split of Keras's fit(); shuffled: the last ones after a "
    "shuffle by the seed, those of Keras's image_dataset_from_directory() with the same seed. "
    "Groups of group_by count in the order of their first files and stay whole.",
    same_on_resume());
  v("folds", s.folds,
    "Parts of equal size into which `trainer crossval` and data.fold divide the training samples, "
    "each class having its share. crossval makes 5 when left out.",
    Rule{.low = 2, .limit = 1000}.on_resume(Resume::kSame));
  v("fold", s.fold,
    "The part, from 1 to data.folds, that validates in place of validation and validation_split "
    "while the other parts train; `train --fold K` sets it. None when left out.",
    at_least(1).on_resume(Resume::kSame));
  v("group_by", s.group_by,
    "Files that must stay in one split, such as those of a patient: a regular expression (RE2) on "
    "paths, whose first parentheses, or whole match, name the group of a file, or a column of a "
    "csv list. validation_split and folds keep groups whole. A file that does not match is a group "
    "of its own. No groups when left out.",
    same_on_resume());
  v("relabel", s.relabel,
    "A csv file with corrected labels, whose header has the columns path and label: an image that "
    "a row names gets the label of the row, and an empty label leaves the image out. Paths are "
    "those that the program prints, or count from data.path, from the folder of the split or from "
    "the folder of a list. Each image must have one label. No corrections when left out.",
    free_on_resume());
  v("limit", s.limit,
    "Use only N training samples: the first of arrays; of image files a set drawn by the seed, "
    "each class having its share. All when left out.",
    at_least(1));
  v("normalize", s.normalize, "From pixels to numbers: (x * scale - mean) / std.",
    same_on_resume());
  v("preprocess", s.preprocess, "A preset of normalize: tf, caffe, torch, scale or none.",
    same_on_resume());
  v.group({"normalize", "preprocess"}, false);
  v("synthetic", s.synthetic, "Size of the random data of format synthetic.");
  v("csv", s.csv, "How the lines of a csv file name an image and its class.");
  v("resize", s.resize, "Size of the images as [height, width]; model.input's when left out.",
    at_least(1).items(2, 2).on_resume(Resume::kSame));
  v("channels", s.channels,
    "1 (grey), 3 (RGB), 2 or 4 for PNG and WebP files with their alpha, or the number of bands of "
    "TIFF files, such as 13 of a satellite; model.input's, or 3, when left out.",
    within(1, kMaxBands).on_resume(Resume::kSame));
  v("range", s.range,
    "The values of 16-bit PNG and TIFF files that become 0 and 255, as [low, high], with those "
    "between in proportion and those outside cut: [0, 4095] for 12 bits. auto: from 0 to the "
    "smallest 2^n - 1, at least 255, that no value in 64 files spread over the training split "
    "exceeds. When left out, the upper byte of a value is used.",
    within(0, 65535).on_resume(Resume::kSame));
  v("interpolation", s.interpolation, "Interpolation between pixels when images are resized.",
    same_on_resume());
  v("antialias", s.antialias,
    "Whether shrinking averages over all pixels, as Pillow and torchvision do, or reads only the "
    "nearest, as tf.image.resize does. When it is given, pixels are within one level of theirs.",
    same_on_resume());
  v("fit", s.fit,
    "stretch to the size; crop: shorter side, then centre; or pad: longer side, with black borders "
    "on both sides (letterbox).",
    same_on_resume());
  v("crop_fraction", s.crop_fraction, "Share of the shorter side that fit: crop keeps, e.g. 0.875.",
    {.low = 0, .high = 1, .low_open = true, .resume = Resume::kSame});
  v("scaled_decode", s.scaled_decode,
    "Whether JPEGs are decoded at 1/2, 1/4 or 1/8 where that is large enough. This is faster and "
    "moves pixels by some levels, which `plan` and `data` measure. When left out, true, or false "
    "where antialias is given.");
  v("on_error", s.on_error,
    "What happens with a damaged image: fail ends the run, skip leaves the image out, and replace "
    "takes another one of the same class.");
  v("error_budget", s.error_budget,
    "Damaged files that on_error lets pass, a share of all when below 1.", at_least(0));
  v("on_conflict", s.on_conflict,
    "Photos (equal bytes) that a split has in several classes: keep all, drop all, or keep the "
    "files of the first class (first). drop and first compare the bytes of files of equal size at "
    "the start.",
    same_on_resume());
  v("cache", s.cache, "Where decoded images are kept; none when left out.", free_on_resume());
  v("cache_dir", s.cache_dir,
    "Folder of cache: disk, and of what on_error: skip has found of the files.", free_on_resume());
  v("max_pixels", s.max_pixels, "Largest image that is decoded.",
    at_least(1).on_resume(Resume::kFree));
  v("max_file_size", s.max_file_size, "Largest image file in bytes.",
    at_least(1).on_resume(Resume::kFree));
  v("shuffle", s.shuffle, "Whether each epoch has an order of its own.", same_on_resume());
  v("sampling", s.sampling,
    "uniform: an epoch has each training sample once; balanced: as many samples of each class, of "
    "a rare class repeatedly, of a frequent one not all. With several labels per image, each label "
    "and the images without one count as classes.",
    same_on_resume());
  v("repeats", s.repeats,
    "Repeated augmentation: an epoch has this many versions of a sample one after the other, and "
    "as many samples fewer.",
    Rule{.low = 1, .limit = 64}.on_resume(Resume::kSame));
  v("drop_remainder", s.drop_remainder,
    "Whether an epoch leaves out the samples at its end that do not fill a batch of all replicas, "
    "as with drop_remainder in Keras and tf.data and drop_last in PyTorch. With shuffle they are "
    "others in each epoch. Evaluations use all samples.",
    same_on_resume());
  v("prefetch", s.prefetch,
    "Batches kept ready ahead; 0: one thread reads each when it is wanted; chosen when left out.",
    Rule{.low = 0, .limit = kMaxSamples}.on_resume(Resume::kFree));
  v("threads", s.threads, "Threads that load; chosen when left out.",
    count_up_to(kMaxThreads).on_resume(Resume::kFree));
}

}  // namespace trainer::config
