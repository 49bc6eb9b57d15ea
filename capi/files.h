// The callbacks of a qinfer_files as files of the library (platform/file.h).
#pragma once

#include <qinfer/qinfer.h>

#include <memory>

#include "base/status.h"
#include "platform/file.h"

namespace qinfer::capi {

/// What a file is opened for.
enum class FileUse { read, write };

/// Null for NULL: then the operating system's files are meant. QINFER_E_INVALID_ARGUMENT names a callback that is
/// missing.
Result<std::shared_ptr<const platform::Files>> host_files(const qinfer_files* caller, FileUse use);
/// Whether a host's files can be mapped. Only after host_files() has accepted them.
bool maps_files(const qinfer_files& caller);

}  // namespace qinfer::capi
