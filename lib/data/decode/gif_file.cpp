// Reads GIF files with giflib.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

// The bytes of a file and the state of giflib.
struct GifSource {
  explicit GifSource(EncodedBytes bytes) : file(bytes) {}
  ~GifSource() {
    int error = 0;
    if (gif != nullptr) DGifCloseFile(gif, &error);
  }
  GifSource(const GifSource&) = delete;
  GifSource& operator=(const GifSource&) = delete;

  EncodedBytes file;
  std::size_t at = 0;
  bool past_end = false;
  GifFileType* gif = nullptr;
  int transparent = -1;  // index
};

int read(GifFileType* gif, GifByteType* to, int wanted) {
  auto& source = *static_cast<GifSource*>(gif->UserData);
  const std::size_t count =
      std::min(static_cast<std::size_t>(wanted), source.file.size() - source.at);
  std::memcpy(to, source.file.data() + source.at, count);
  source.at += count;
  source.past_end = source.past_end || count < static_cast<std::size_t>(wanted);
  return static_cast<int>(count);
}

[[noreturn]] void fail(const GifSource& source, int error, const std::string& path) {
  const char* reason = GifErrorString(error);
  throw DataError(path, source.past_end
                            ? concat("GIF: is truncated: the file ends after ", source.file.size(),
                                     " bytes, before its first frame is complete")
                            : concat("GIF: is damaged: ", reason != nullptr ? reason : "no frame"));
}

// Moves to the header of the first frame; returns false if there is none.
bool find_frame(GifSource& source) {
  GifFileType* gif = source.gif;
  for (GifRecordType record = UNDEFINED_RECORD_TYPE; record != IMAGE_DESC_RECORD_TYPE;) {
    if (DGifGetRecordType(gif, &record) == GIF_ERROR || record == TERMINATE_RECORD_TYPE) {
      return false;
    }
    if (record != EXTENSION_RECORD_TYPE) continue;
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return false;
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        source.transparent = control.TransparentColor;
      }
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return false;
    }
  }
  return DGifGetImageDesc(gif) == GIF_OK;
}

class GifFile final : public Decoder {
 public:
  GifFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;

 private:
  GifSource source_;
};

GifFile::GifFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kGif), source_(file) {
  int error = 0;
  source_.gif = DGifOpen(&source_, read, &error);
  if (source_.gif == nullptr) fail(source_, error, path);
  if (!find_frame(source_)) fail(source_, source_.gif->Error, path);
  // A frame beyond the screen enlarges the image.
  const GifImageDesc& frame = source_.gif->Image;
  info_.width = std::max(source_.gif->SWidth, frame.Left + frame.Width);
  info_.height = std::max(source_.gif->SHeight, frame.Top + frame.Height);
  info_.channels = 3;
}

std::string GifFile::decode(int, int, Pixels& out, const LevelTable*) {
  GifFileType* gif = source_.gif;
  const GifImageDesc& frame = gif->Image;
  Pixels indices(info_.height, info_.width, 1);
  std::fill_n(indices.data(), indices.size(),
              static_cast<std::uint8_t>(std::max(source_.transparent, 0)));
  constexpr int kFirstRows[] = {0, 4, 2, 1}, kSteps[] = {8, 8, 4, 2};
  for (int pass = 0; pass < (frame.Interlace ? 4 : 1); ++pass) {
    const int step = frame.Interlace ? kSteps[pass] : 1;
    for (int y = frame.Interlace ? kFirstRows[pass] : 0; y < frame.Height; y += step) {
      if (DGifGetLine(gif, indices.row(frame.Top + y) + frame.Left, frame.Width) == GIF_ERROR) {
        fail(source_, gif->Error, path_);
      }
    }
  }
  std::uint8_t palette[256][3] = {};  // missing colours are black
  const ColorMapObject* map = frame.ColorMap != nullptr ? frame.ColorMap : gif->SColorMap;
  for (int i = 0; map == nullptr && i < 256; ++i) {
    std::fill_n(palette[i], 3, static_cast<std::uint8_t>(i));  // levels of grey
  }
  for (int i = 0; map != nullptr && i < map->ColorCount; ++i) {
    const GifColorType& colour = map->Colors[i];
    palette[i][0] = colour.Red;
    palette[i][1] = colour.Green;
    palette[i][2] = colour.Blue;
  }
  out.reset(info_.height, info_.width, 3);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::copy_n(palette[indices.data()[i]], 3, out.data() + 3 * i);
  }
  return "";
}

}  // namespace

std::unique_ptr<Decoder> open_gif(EncodedBytes file, const std::string& path) {
  return std::make_unique<GifFile>(file, path);
}

}  // namespace trainer::data
