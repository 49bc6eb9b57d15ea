#!/usr/bin/env bash
# A host's locale changes neither numbers nor messages: locale_host runs in locales whose decimal point is a comma, and
# two bytes. They are made from the definitions of the package `locales`; without these the test is skipped.
# usage: check_locale.sh LOCALE_HOST MODEL
set -u
program=$1 model=$2
command -v localedef >/dev/null && [ -e /usr/share/i18n/locales/de_DE ] ||
  { echo "skipped: machine: no definitions of locales (package locales)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in de_DE ps_AF; do
  localedef --no-archive -c -i "$name" -f UTF-8 "$work/$name.UTF-8" 2>/dev/null
  LOCPATH=$work LC_ALL=$name.UTF-8 LANGUAGE=de "$program" "$model" || exit $?
done
