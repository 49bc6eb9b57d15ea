// See date.h.
#include "jinja/date.h"

#include <string>

namespace qinfer::jinja {
namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

/// Days since 1 January of the year.
int day_of_year(const Date& date) {
  constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  return kBefore[date.month - 1] + date.day - 1 + (date.month > 2 && is_leap(date.year) ? 1 : 0);
}

/// 0 is Sunday; by Zeller's congruence.
int week_day(const Date& date) {
  const int month = date.month < 3 ? date.month + 12 : date.month;
  const int year = date.month < 3 ? date.year - 1 : date.year;
  return (date.day + 13 * (month + 1) / 5 + year + year / 4 - year / 100 + year / 400 + 6) % 7;
}

/// Weeks by ISO 8601, which begin on Monday; the year they belong to.
int iso_week(const Date& date, int& year) {
  const int day = (week_day(date) + 6) % 7;
  const int week = (day_of_year(date) - day + 10) / 7;
  const auto weeks_of = [](int of) {
    Date first;
    first.year = of;
    const int begins = week_day(first);
    return begins == 4 || (begins == 3 && is_leap(of)) ? 53 : 52;
  };
  year = date.year;
  if (week < 1) {
    year = date.year - 1;
    return weeks_of(year);
  }
  if (week > weeks_of(date.year)) {
    year = date.year + 1;
    return 1;
  }
  return week;
}

std::string offset_text(const Date& date) {
  if (!date.has_utc_offset) return {};
  const int minutes = (date.utc_offset < 0 ? -date.utc_offset : date.utc_offset) / 60;
  return format_text("{}{:02}{:02}", date.utc_offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string twelve_hours(const Date& date, char pad) {
  const int hour = date.hour % 12 == 0 ? 12 : date.hour % 12;
  return pad == '0' ? format_text("{:02}", hour) : format_text("{:2}", hour);
}

std::string name_part(const Date& date, char directive) {
  std::string day = kDays[week_day(date)], month = kMonths[date.month - 1];
  switch (directive) {
    case 'a': return day.substr(0, 3);
    case 'A': return day;
    case 'b':
    case 'h': return month.substr(0, 3);
    case 'B': return month;
    case 'p': return date.hour < 12 ? "AM" : "PM";
    case 'P': return date.hour < 12 ? "am" : "pm";
    case 'Z': return date.zone;
    case 'z': return offset_text(date);
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    default: return {};
  }
}

/// The part that %directive writes; false if there is no such directive.
bool date_part(const Date& date, char directive, std::string& out) {
  const int day = week_day(date), of_year = day_of_year(date);
  int iso_year = 0;
  const int iso = iso_week(date, iso_year);
  const auto two = [&](int number) {
    out = format_text("{:02}", number);
    return true;
  };
  switch (directive) {
    case 'C': return two(date.year / 100);
    case 'd': return two(date.day);
    case 'e': out = format_text("{:2}", date.day); return true;
    case 'f': out = format_text("{:06}", date.microsecond); return true;
    case 'g': return two(iso_year % 100);
    case 'G': out = format_text("{}", iso_year); return true;
    case 'H': return two(date.hour);
    case 'I': out = twelve_hours(date, '0'); return true;
    case 'j': out = format_text("{:03}", of_year + 1); return true;
    case 'k': out = format_text("{:2}", date.hour); return true;
    case 'l': out = twelve_hours(date, ' '); return true;
    case 'm': return two(date.month);
    case 'M': return two(date.minute);
    case 'S': return two(date.second);
    case 'u': out = format_text("{}", day == 0 ? 7 : day); return true;
    case 'U': return two((of_year + 7 - day) / 7);
    case 'V': return two(iso);
    case 'w': out = format_text("{}", day); return true;
    case 'W': return two((of_year + 7 - (day + 6) % 7) / 7);
    case 'y': return two(date.year % 100);
    case 'Y': out = format_text("{}", date.year); return true;
    default: break;
  }
  out = name_part(date, directive);
  return !out.empty() || directive == 'Z' || directive == 'z';
}

/// What a directive stands for that is made of others; null if it is not.
const char* composed(char directive) {
  switch (directive) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'r': return "%I:%M:%S %p";
    case 'R': return "%H:%M";
    case 'T':
    case 'X': return "%H:%M:%S";
    default: return nullptr;
  }
}

/// "%-d": without the zeros or blanks in front.
std::string without_padding(std::string part) {
  while (part.size() > 1 && (part[0] == '0' || part[0] == ' ')) part.erase(0, 1);
  return part;
}

}  // namespace

Value format_date(Run& run, const Date& date, const Text& format) {
  TextBuilder out(run);
  const std::string_view view = format.view();
  for (std::size_t at = 0; at < view.size() && run.charge(1);) {
    const std::size_t percent = std::min(view.find('%', at), view.size());
    out.add(format, at, percent - at);
    at = percent + 1;
    if (percent == view.size()) break;
    const bool is_bare = at < view.size() && view[at] == '-';
    if (is_bare) ++at;
    const char directive = at < view.size() ? view[at] : '\0';
    std::string part;
    if (const char* others = composed(directive); others != nullptr) {
      Text inner;
      inner.data = others;
      inner.size = std::string_view(others).size();
      out.add(*format_date(run, date, inner).text);
    } else if (date_part(date, directive, part)) {
      out.add(is_bare ? without_padding(part) : part, 0);
    } else {
      return run.fail(
          format_text("strftime_now() knows no directive %{}; %Y, %m, %d, %B, %b, %A, %a, %H, %M and %S are some",
                      directive == '\0' ? std::string() : std::string(1, directive)));
    }
    ++at;
  }
  return out.finish();
}

}  // namespace qinfer::jinja
