// strftime() of a date that is given, in the C locale.
#pragma once

#include "jinja/run.h"
#include "jinja/template.h"

namespace qinfer::jinja {

/// The date in this format. What is derived from it is the template's; the format's own bytes keep their marks.
Value format_date(Run& run, const Date& date, const Text& format);

}  // namespace qinfer::jinja
