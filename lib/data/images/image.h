// Image files to pixels of one size: decoding, resizing, random changes, and the data set of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/random.h"
#include "config/config.h"
#include "data/data.h"

namespace trainer::data {

// Pixels, row by row, packed. Memory is kept when a smaller image follows.
class Pixels {
 public:
  Pixels() = default;
  Pixels(int height, int width, int channels) { reset(height, width, channels); }
  // The content is undefined afterwards.
  void reset(int height, int width, int channels);
  int height() const { return height_; }
  int width() const { return width_; }
  int channels() const { return channels_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * channel_count(); }
  std::size_t size() const { return row_bytes() * static_cast<std::size_t>(height_); }
  std::uint8_t* data() { return memory_.get(); }
  const std::uint8_t* data() const { return memory_.get(); }
  std::uint8_t* row(int y) { return data() + static_cast<std::size_t>(y) * row_bytes(); }
  const std::uint8_t* row(int y) const {
    return data() + static_cast<std::size_t>(y) * row_bytes();
  }

 private:
  std::size_t channel_count() const { return static_cast<std::size_t>(channels_); }
  std::unique_ptr<std::uint8_t[]> memory_;
  std::size_t capacity_ = 0;
  int height_ = 0, width_ = 0, channels_ = 0;
};

// ---- Decoding ----------------------------------------------------------------------------------

struct ImageLimits {
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;
};

// What the header says. Height and width are those after turning the image as its EXIF orientation
// says.
struct ImageInfo {
  std::string kind;  // "JPEG", "PNG", ...
  int height = 0, width = 0;
  int channels = 0;     // 1 or 3 that decode() gives: 1 for a grey file, whatever is asked for
  int orientation = 1;  // EXIF
};

// The file's bytes. Throws DataError when it is larger than the limit, before reading it.
void read_image_file(const Path& path, const ImageLimits& limits, std::vector<std::uint8_t>& bytes);

// Tells the kind by the first bytes and reads the header; no pixel memory is taken. `path` is used
// in messages. Throws DataError that says what the file is and what is wrong with it.
ImageInfo read_header(std::span<const std::uint8_t> file, const std::string& path,
                      const ImageLimits& limits);

// Decodes to 1 or 3 channels (a grey file stays at 1; a colour file becomes grey when `channels` is
// 1). `info` is what read_header said of this file. `reduce` is 1, 2, 4 or 8: a JPEG is decoded at
// that fraction of its size, rounded up; other kinds ignore it. Alpha is dropped, CMYK becomes RGB
// as in Pillow. `warning` receives what the decoder complained about without giving up. Throws
// DataError.
void decode(std::span<const std::uint8_t> file, const std::string& path, const ImageInfo& info,
            int channels, int reduce, Pixels& out, std::string* warning = nullptr);

// Turns the image as an EXIF orientation (1 to 8, else nothing) says.
void orient(Pixels& image, int orientation);
// The orientation that the EXIF block of a JPEG gives, 1 when there is none.
int exif_orientation(std::span<const std::uint8_t> app1);

// ---- Resizing ----------------------------------------------------------------------------------

// One axis: `input` pixels from `first` on become `size` pixels, of which `output` from `skip` on
// are computed.
struct ResizeAxis {
  int first = 0, input = 0;
  int size = 0;
  int skip = 0, output = 0;
  bool operator==(const ResizeAxis&) const = default;
};

// Separable resizing with Pillow's and torchvision's weights: triangle or Keys cubic (a = -0.5) at
// pixel centres, widened by the scale when shrinking with antialias. Integer arithmetic, the same
// on every processor; within 1 of Pillow, which however cuts a cubic's overshoot off between its
// passes. `out` is [vertical.output, horizontal.output, channels].
void resize(const Pixels& in, const ResizeAxis& vertical, const ResizeAxis& horizontal,
            config::Interpolation interpolation, bool antialias, std::uint8_t* out);

// Which part of an image becomes which: the crop of random_resized_crop, or the whole.
struct Geometry {
  ResizeAxis vertical, horizontal;
};
// fit: stretch and crop of an image of this size to [height, width]. crop is torchvision's
// Resize(shorter side / crop_fraction), CenterCrop.
Geometry fit_geometry(int height, int width, int out_height, int out_width, config::Fit fit,
                      double crop_fraction);
// The largest of 1, 2, 4, 8 at which every part that `geometry` cuts out is still at least as large
// as what it becomes.
int decode_reduction(const Geometry& geometry);
// The same geometry on the image decoded at 1 / reduce, which is [height, width].
Geometry reduced(const Geometry& geometry, int reduce, int height, int width);

// ---- Random changes ----------------------------------------------------------------------------

using Augmentations = std::vector<config::Augmentation>;
// torchvision's RandomResizedCrop.get_params; none when the list does not start with one.
std::optional<Geometry> random_crop_geometry(const Augmentations& list, Random& random, int height,
                                             int width, int out_height, int out_width);
// All but random_resized_crop, mixup and cutmix, on an image of the final size.
void augment(const Augmentations& list, Random& random, Pixels& image);

// ---- The data set ------------------------------------------------------------------------------

struct ImageFile {
  std::string path;
  std::int32_t label = 0;
};
struct ImageList {
  std::string source;  // the folder, glob or csv, for messages
  std::vector<ImageFile> files;
  std::vector<std::string> notes;  // what was left aside, and why
  std::string without_class = {};  // the note on image files that lie in no folder of a class
  std::vector<int> lines = {};     // of a csv, by file
};

// The class names of a folder of folders, or of a csv's labels, sorted.
std::vector<std::string> class_names(const config::Data& data, const config::Split& split);
// The files of a split, sorted by path (csv: in the file's order). Throws DataError when a class
// has no file, a folder is no class, a csv line is wrong.
ImageList list_images(const config::Data& data, const config::Split& split,
                      const std::vector<std::string>& classes);

// Throws DataError naming the line of the csv whose file is not there. For a list as it was made.
void check_files_exist(const ImageList& list);

// Keeps `count` files, in their order, and as many of each class as its share of the list says, but
// at least one where `count` allows. Drawn at random: a function of the seed and the list. A larger
// count keeps the files of a smaller one, too.
void draw_files(ImageList& list, std::int64_t count, std::uint64_t seed);

// The files below a folder that are named like images, sorted; hidden ones are left out.
std::vector<std::string> images_below(const std::string& folder);

// Random changes belong to the training split only: `augment` is its list.
std::unique_ptr<Dataset> make_image_dataset(const config::Data& data, ImageList list,
                                            std::vector<std::string> classes, std::uint64_t seed,
                                            bool training);

// Keeps decoded images of varying size. Thread-safe.
class PixelCache {
 public:
  virtual ~PixelCache() = default;
  // False when the image is not there yet.
  virtual bool load(std::int64_t index, Pixels& out) = 0;
  virtual void store(std::int64_t index, const Pixels& image) = 0;
};
std::unique_ptr<PixelCache> make_memory_cache(std::int64_t count);
// Images of `image_bytes` bytes in one file of `folder`, named by the key. An entry that a killed
// process left half-written does not pass its checksum and counts as missing.
std::unique_ptr<PixelCache> make_disk_cache(const Path& folder, const std::string& key,
                                            std::int64_t count, std::size_t image_bytes);

}  // namespace trainer::data
