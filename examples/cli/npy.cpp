// npy.cpp: see npy.h. Layout: magic, version, a little-endian 16-bit header length, a Python dict padded with spaces
// so that the data begins at a multiple of 64 bytes, then the rows as they lie in memory.
#include "npy.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "support.h"

namespace cli {
namespace {

std::string npy_header(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string dict = format("{'descr': '%cf4', 'fortran_order': False, 'shape': (%zu, %zu), }", order, rows, columns);
  while ((kPrefix + dict.size() + 1) % kAlignment != 0) dict += ' ';
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

NpyWriter::NpyWriter(const std::string& path, std::size_t rows, std::size_t columns)
    : path_(path), columns_(columns), file_(std::fopen(path.c_str(), "wb")) {
  if (!file_) fail();
  const std::string header = npy_header(rows, columns);
  if (std::fwrite(header.data(), 1, header.size(), file_.get()) != header.size()) fail();
}

void NpyWriter::write_row(const float* values) {
  if (std::fwrite(values, sizeof(float), columns_, file_.get()) != columns_) fail();
}

void NpyWriter::close() {
  if (std::fclose(file_.release()) != 0) fail();
}

void NpyWriter::fail() const { throw Failure("cannot write " + path_ + ": " + std::strerror(errno)); }

}  // namespace cli
