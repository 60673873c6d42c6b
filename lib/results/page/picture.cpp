#include "results/page/picture.h"

#include <openssl/evp.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "results/page/svg.h"

namespace trainer::results {
namespace {

constexpr int kMaxSide = 256;
constexpr int kMaxPngSide = 64;  // sides up to which PNG is the smaller file
constexpr int kJpegQuality = 85;
// Small pictures are enlarged by a whole factor, so that their pixels stay squares.
constexpr int kShownSide = 112;

std::string base64(const Bytes& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL adds a zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                   static_cast<int>(bytes.size()));
  text.resize(size);
  return text;
}

// Returns the means of squares of `side` x `side` pixels.
std::vector<std::uint8_t> shrunk(const std::vector<std::uint8_t>& pixels, int height, int width,
                                 int channels, int side) {
  std::vector<std::uint8_t> small;
  for (int y = 0; y + side <= height; y += side) {
    for (int x = 0; x + side <= width; x += side) {
      for (int c = 0; c < channels; ++c) {
        int sum = 0;
        for (int i = 0; i < side * side; ++i) {
          const int at = ((y + i / side) * width + x + i % side) * channels + c;
          sum += pixels[at];
        }
        small.push_back(static_cast<std::uint8_t>(sum / (side * side)));
      }
    }
  }
  return small;
}

std::string image_element(const Picture& picture, const std::string& text) {
  const int factor = std::max(1, kShownSide / std::max(picture.width, picture.height));
  return concat("<img src=\"", picture.url, "\" width=\"", picture.width * factor, "\" height=\"",
                picture.height * factor, "\"", factor > 1 ? " class=\"pixels\"" : "", " alt=\"",
                escape_markup(text), "\"/>");
}

std::string pictures(const SampleTile& tile) {
  if (tile.picture.url.empty()) return "";
  const std::string sample = image_element(tile.picture, tile.picture_text);
  if (tile.heatmap.url.empty()) return sample;
  return concat("<div>", sample, image_element(tile.heatmap, tile.heatmap_text), "</div>");
}

// Returns the file name of a path, and the end of a long name from the start of a character.
std::string short_name(const std::string& path) {
  constexpr std::size_t kMaxLength = 28;
  const std::string name = std::filesystem::path(path).filename().string();
  if (name.size() <= kMaxLength) return name;
  std::size_t first = name.size() - kMaxLength;
  while (first < name.size() && (static_cast<unsigned char>(name[first]) & 0xC0) == 0x80) ++first;
  return "..." + name.substr(first);
}

}  // namespace

Picture encode_picture(const std::vector<std::uint8_t>& pixels, const Shape& shape) {
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const int all = static_cast<int>(shape[2]), channels = all == 3 ? 3 : 1;
  std::vector<std::uint8_t> shown(height * width * channels);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    shown[i] = channels == all ? pixels[i] : pixels[i * static_cast<std::size_t>(all)];
  }
  const int longest = std::max(height, width);
  const int side = std::min({(longest + kMaxSide - 1) / kMaxSide, height, width});
  if (side > 1) shown = shrunk(shown, height, width, channels, side);
  Picture picture{width / side, height / side, {}};
  Bytes file;
  const auto append = [](void* context, void* bytes, int size) {
    const auto* from = static_cast<const std::uint8_t*>(bytes);
    static_cast<Bytes*>(context)->insert(static_cast<Bytes*>(context)->end(), from, from + size);
  };
  const bool small = std::max(picture.width, picture.height) <= kMaxPngSide;
  if (small) {
    stbi_write_png_to_func(append, &file, picture.width, picture.height, channels, shown.data(),
                           picture.width * channels);
  } else {
    stbi_write_jpg_to_func(append, &file, picture.width, picture.height, channels, shown.data(),
                           kJpegQuality);
  }
  picture.url = concat("data:image/", small ? "png" : "jpeg", ";base64,", base64(file));
  return picture;
}

std::string sample_list(const std::vector<SampleTile>& tiles) {
  const bool has_heatmaps =
      std::ranges::any_of(tiles, [](const SampleTile& tile) { return !tile.heatmap.url.empty(); });
  std::string text = concat("<ul class=\"samples", has_heatmaps ? " pairs" : "", "\">\n");
  for (const SampleTile& tile : tiles) {
    text += concat("<li", tile.is_wrong ? " class=\"wrong\"" : "", ">", pictures(tile), "<span>");
    for (const CaptionLine& line : tile.lines) {
      text += concat(escape_markup(line.before), "<b>", escape_markup(line.name), "</b>",
                     escape_markup(line.after), "<br/>");
    }
    text += concat("<small title=\"", escape_markup(tile.name), "\">",
                   escape_markup(short_name(tile.name)), "</small></span></li>\n");
  }
  return text + "</ul>\n";
}

}  // namespace trainer::results
