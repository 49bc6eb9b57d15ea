// What an errno means, in English whatever the host's locale is.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace qinfer::platform {

std::string errno_text(int code);

/// A failed call about a file: QINFER_E_NOT_FOUND where it is not there, QINFER_E_NO_MEMORY where the system has no
/// memory for it, otherwise QINFER_E_IO; detail is the errno, "<what>: <text>" the message.
Status io_error(int code, std::string_view what);

}  // namespace qinfer::platform
