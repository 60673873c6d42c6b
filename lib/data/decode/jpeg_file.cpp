#include "data/decode/jpeg_file.h"

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <vector>

#include "base/error.h"
#include "data/decode/cmyk.h"
#include "data/jpeg/plain.h"

namespace trainer::data {
namespace {

// The state of callbacks of libjpeg.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "";
  char warning[JMSG_LENGTH_MAX] = "";
  bool too_many_scans = false;
  bool data_missing = false;          // the decoder needed more bits than the file has
  char damage[JMSG_LENGTH_MAX] = "";  // the first warning that means lost pixels
};
struct JpegSource {
  jpeg_source_mgr base;
  bool past_end = false;
};

// A progressive file may need any number of passes over the whole image.
constexpr int kMaxScans = 100;

[[noreturn]] void on_error(j_common_ptr cinfo) {
  auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
  errors->base.format_message(cinfo, errors->text);
  std::longjmp(errors->jump, 1);
}

void on_message(j_common_ptr cinfo, int level) {
  if (level >= 0) return;
  auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
  const int code = errors->base.msg_code;
  if (code == JWRN_HIT_MARKER) errors->data_missing = true;
  if ((code == JWRN_HIT_MARKER || code == JWRN_MUST_RESYNC) && errors->damage[0] == 0) {
    errors->base.format_message(cinfo, errors->damage);
  }
  if (errors->base.num_warnings++ == 0) errors->base.format_message(cinfo, errors->warning);
}

void on_progress(j_common_ptr cinfo) {
  if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(cinfo->err);
  errors->too_many_scans = true;
  std::longjmp(errors->jump, 1);
}

void ignore(j_decompress_ptr) {}

// Gives an end-of-image marker beyond the end of the file, so that the decoder stops.
boolean fill(j_decompress_ptr cinfo) {
  static const JOCTET kEnd[2] = {0xFF, JPEG_EOI};
  auto* source = reinterpret_cast<JpegSource*>(cinfo->src);
  source->past_end = true;
  source->base.next_input_byte = kEnd;
  source->base.bytes_in_buffer = sizeof kEnd;
  return TRUE;
}

void skip(j_decompress_ptr cinfo, long count) {
  if (count <= 0) return;
  auto& source = *cinfo->src;
  if (static_cast<std::size_t>(count) > source.bytes_in_buffer) {
    fill(cinfo);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

// The decoder with all state that a longjmp may leave. Objects with destructors must not exist
// between setjmp and the calls of libjpeg, so that each step below is a function of its own.
class LibjpegDecoder {
 public:
  jpeg_decompress_struct cinfo{};
  JpegErrors errors;
  JpegSource source;
  jpeg_progress_mgr progress{};

  explicit LibjpegDecoder(EncodedBytes file) {
    cinfo.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = on_error;
    errors.base.emit_message = on_message;
    // Creation fails only without memory or with another version of the library.
    if (setjmp(errors.jump) == 0) {
      jpeg_create_decompress(&cinfo);
      progress.progress_monitor = on_progress;
      cinfo.progress = &progress;
      source.base.init_source = ignore;
      source.base.fill_input_buffer = fill;
      source.base.skip_input_data = skip;
      source.base.resync_to_restart = jpeg_resync_to_restart;
      source.base.term_source = ignore;
      source.base.next_input_byte = file.data();
      source.base.bytes_in_buffer = file.size();
      cinfo.src = &source.base;
      jpeg_save_markers(&cinfo, JPEG_APP0 + 1, 0xFFFF);
    }
  }
  ~LibjpegDecoder() { jpeg_destroy_decompress(&cinfo); }
  LibjpegDecoder(const LibjpegDecoder&) = delete;
  LibjpegDecoder& operator=(const LibjpegDecoder&) = delete;

  bool read_header() {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_read_header(&cinfo, TRUE);
    return true;
  }
  bool start(int channels, int reduce) {
    if (setjmp(errors.jump) != 0) return false;
    const bool four = cinfo.num_components == 4;
    const bool grey = cinfo.num_components == 1 ||
                      (channels == 1 && !four && cinfo.jpeg_color_space != JCS_UNKNOWN);
    cinfo.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    cinfo.scale_num = 1;
    cinfo.scale_denom = static_cast<unsigned>(reduce);
    jpeg_start_decompress(&cinfo);
    return true;
  }
  // Reads rows [output_scanline, output_height) to `out`, whose rows are `stride` apart, through
  // `scratch` for CMYK.
  bool read_rows(std::uint8_t* out, std::size_t stride, std::uint8_t* scratch) {
    if (setjmp(errors.jump) != 0) return false;
    while (cinfo.output_scanline < cinfo.output_height) {
      std::uint8_t* row = out + cinfo.output_scanline * stride;
      JSAMPROW rows[1] = {scratch != nullptr ? scratch : row};
      jpeg_read_scanlines(&cinfo, rows, 1);
      if (scratch != nullptr) from_cmyk(scratch, row);
    }
    return true;
  }

  // Like Pillow, treats every CMYK JPEG as inverted, as Adobe writes them, whatever its markers
  // are.
  void from_cmyk(const std::uint8_t* cmyk, std::uint8_t* rgb) const {
    for (JDIMENSION x = 0; x < cinfo.output_width; ++x, cmyk += 4, rgb += 3) {
      for (int c = 0; c < 3; ++c) rgb[c] = apply_ink(255 - cmyk[c], cmyk[3]);
    }
  }
};

[[noreturn]] void fail(const LibjpegDecoder& decoder, const std::string& path) {
  const JpegErrors& errors = decoder.errors;
  std::string text = errors.text;
  if (errors.too_many_scans) {
    text = concat("has more than ", kMaxScans, " scans; it is damaged or was made to waste time");
  } else if (errors.base.msg_code == JERR_SOF_UNSUPPORTED) {
    const int sof = errors.base.msg_parm.i[0];
    const bool lossless = sof == 0xC3 || sof == 0xC7 || sof == 0xCB || sof == 0xCF;
    text = lossless ? "is a lossless JPEG, which is not supported; convert it to PNG"
                    : "uses an unsupported process (" + text + "); convert it to PNG";
  } else if (errors.base.msg_code == JERR_BAD_PRECISION) {
    text = concat("has ", errors.base.msg_parm.i[0],
                  " bits per sample, which is not supported; convert it to PNG");
  } else if (errors.base.msg_code == JERR_ARITH_NOTIMPL) {
    text = "uses arithmetic coding, which this libjpeg does not support; convert it to PNG";
  } else if (decoder.source.past_end) {
    text = "ends before its first image data";
  }
  throw DataError(path, "JPEG: " + text);
}

void check_complete(LibjpegDecoder& decoder, const std::string& path, std::size_t file_size) {
  // Later scans of a progressive file refine the whole image: without the end marker some may be
  // missing. A baseline file has all its pixels if no bit was missing.
  const bool scans_missing =
      decoder.cinfo.buffered_image || jpeg_has_multiple_scans(&decoder.cinfo);
  const char* damage = decoder.errors.damage;
  if (!decoder.source.past_end && damage[0] != 0) {
    throw DataError(path, "JPEG: is damaged: ", damage);
  }
  if (!decoder.source.past_end || (!decoder.errors.data_missing && !scans_missing)) return;
  throw DataError(path, "JPEG: is truncated: the file ends after ", file_size,
                  " bytes, before the image of ", decoder.cinfo.image_width, " x ",
                  decoder.cinfo.image_height, " pixels is complete");
}

int find_jpeg_orientation(const jpeg_decompress_struct& cinfo) {
  JpegOrientation orientation;
  for (const jpeg_marker_struct* marker = cinfo.marker_list; marker != nullptr;
       marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1) orientation.add({marker->data, marker->data_length});
  }
  return orientation.value();
}

// A file of several scans needs the coefficients of the whole image in memory, and each scan reads
// them. A small file with a large image would waste memory and time.
void check_coefficients(LibjpegDecoder& decoder, const std::string& path, std::size_t file_size) {
  auto& cinfo = decoder.cinfo;
  if (!jpeg_has_multiple_scans(&cinfo)) return;
  constexpr std::uint64_t kMaxBytes = 384 << 20, kMaxExpansion = 64;
  std::uint64_t blocks = 0;
  for (int i = 0; i < cinfo.num_components; ++i) {
    const jpeg_component_info& component = cinfo.comp_info[i];
    blocks += std::uint64_t{component.width_in_blocks} * component.height_in_blocks;
  }
  const std::uint64_t bytes = blocks * sizeof(JBLOCK);
  if (bytes <= kMaxBytes + file_size * kMaxExpansion) return;
  throw DataError(path, "JPEG: has several scans, which need ", bytes >> 20,
                  " MiB to decode, but only ", file_size,
                  " bytes; it may be made to waste memory: convert it to a baseline "
                  "JPEG to use it");
}

// Decodes the image of a decoder that has read the header.
std::string decode_rest(LibjpegDecoder& decoder, const std::string& path, std::size_t file_size,
                        int channels, int reduce, Pixels& out) {
  check_coefficients(decoder, path, file_size);
  if (!decoder.start(channels, reduce)) fail(decoder, path);
  const auto& cinfo = decoder.cinfo;
  const bool cmyk = cinfo.out_color_space == JCS_CMYK;
  out.reset(static_cast<int>(cinfo.output_height), static_cast<int>(cinfo.output_width),
            cinfo.out_color_space == JCS_GRAYSCALE ? 1 : 3);
  std::vector<std::uint8_t> scratch(cmyk ? std::size_t{cinfo.output_width} * 4 : 0);
  if (!decoder.read_rows(out.data(), out.row_bytes(), cmyk ? scratch.data() : nullptr)) {
    fail(decoder, path);
  }
  check_complete(decoder, path, file_size);
  return decoder.errors.warning;
}

// Decodes to 1 channel if the file is grey, or if `channels` is 1 and the file is YCbCr or RGB;
// otherwise to 3.
class JpegFile final : public Decoder {
 public:
  JpegFile(EncodedBytes file, const std::string& path) : Decoder(file, path, ImageKind::kJpeg) {
    if (jpeg::read_plain_header(file, plain_)) {
      set_info(plain_.height, plain_.width, plain_.components, plain_.orientation);
      return;
    }
    decoder_ = std::make_unique<LibjpegDecoder>(file);
    if (!decoder_->read_header()) fail(*decoder_, path);
    const auto& cinfo = decoder_->cinfo;
    set_info(static_cast<int>(cinfo.image_height), static_cast<int>(cinfo.image_width),
             cinfo.num_components, find_jpeg_orientation(cinfo));
  }

  std::string decode(int channels, int reduce, Pixels& out, const LevelTable*) override {
    if (decoder_) return decode_rest(*decoder_, path_, file_.size(), channels, reduce, out);
    if (jpeg::decode_plain(file_, plain_, channels, reduce, out)) return "";
    return decode_with_libjpeg(file_, path_, channels, reduce, out);
  }

 private:
  void set_info(int height, int width, int components, int orientation) {
    info_.height = height;
    info_.width = width;
    info_.channels = components == 1 ? 1 : 3;
    info_.orientation = orientation;
  }

  jpeg::Header plain_;
  std::unique_ptr<LibjpegDecoder> decoder_;  // null for a plain file
};

}  // namespace

std::unique_ptr<Decoder> open_jpeg(EncodedBytes file, const std::string& path) {
  return std::make_unique<JpegFile>(file, path);
}

std::string decode_with_libjpeg(EncodedBytes file, const std::string& path, int channels,
                                int reduce, Pixels& out) {
  LibjpegDecoder decoder(file);
  if (!decoder.read_header()) fail(decoder, path);
  return decode_rest(decoder, path, file.size(), channels, reduce, out);
}

}  // namespace trainer::data
