// npy.h: writes float32 matrices in NumPy's file format, version 1.0.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

namespace cli {

/// A file that takes `rows` rows of `columns` floats. Every member throws Failure on an I/O error.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, std::size_t rows, std::size_t columns);
  void write_row(const float* values);
  /// Must be called last: a full disk may show only here.
  void close();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  [[noreturn]] void fail() const;

  std::string path_;
  std::size_t columns_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace cli
