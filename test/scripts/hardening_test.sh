#!/usr/bin/env bash
# What a release build is hardened with, read from the program and from the libraries of the folders that parse bytes
# from outside: hardening_test.sh PROGRAM BUILD_FOLDER
set -euo pipefail

program=$1 build=$2
fail() { echo "hardening_test: $1" >&2; exit 1; }
option() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
export LC_ALL=C

# Whole answers first: grep -q closes a pipe early, which pipefail takes for a failure.
has() {  # WHAT PATTERN READELF_OPTIONS...
  local what=$1 pattern=$2 answer
  shift 2
  answer=$(readelf --wide "$@" "$program")
  grep -qE "$pattern" <<< "$answer" || fail "$program: $what"
}
has_not() {  # WHAT PATTERN READELF_OPTIONS...
  if (has "$@") 2> /dev/null; then fail "$program: $1"; fi
}
has "not position independent" 'Type: +DYN' --file-header
has "the linker's tables stay writable (no RELRO)" 'GNU_RELRO' --program-headers
has "functions are bound late (no BIND_NOW)" '(BIND_NOW|FLAGS_1.*NOW)' --dynamic
has "no word about the stack" 'GNU_STACK' --program-headers
has_not "the stack can be executed" 'GNU_STACK.* RWE ' --program-headers
has_not "a segment can be written and executed" ' RWE ' --program-headers
has_not "libraries are looked for in relative folders" '(RPATH|RUNPATH).*\[([^/$].*)?\]' --dynamic

# The wheel is for systems with libstdc++ 3.4.29.
source=$(option CMAKE_HOME_DIRECTORY)
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
install -m 755 "$program" "$copy"
python3 "$source/scripts/package/older_libstdcxx.py" "$copy" || fail "$program needs a newer libstdc++"
[[ $(readelf --wide --version-info "$copy") != *GLIBCXX_3.4.30* ]] || fail "older_libstdcxx.py leaves GLIBCXX_3.4.30"
[[ $("$copy" --version) == "$("$program" --version)" ]] || fail "the program does not start with older symbols"

type=$(option CMAKE_BUILD_TYPE)
if [[ $type == Debug || -n $(option TRAINER_SANITIZE) ]]; then
  echo "hardening_test: skipped: a build of type $type has no stack protectors"
  exit 77
fi
symbols_of() { readelf --wide --symbols "$build/lib/$1/libtrainer_$1.a" 2> /dev/null; }
for folder in base config checkpoint cluster data server; do
  grep -q ' UND __stack_chk_fail$' <<< "$(symbols_of $folder)" || fail "lib/$folder: no stack protectors"
done
# Which calls are checked is the compiler's choice: those whose buffer it knows.
grep -qE ' UND __[a-z]+_chk$' <<< "$(symbols_of data)" || fail "lib/data: no checked functions (_FORTIFY_SOURCE)"
has "no stack protectors" '__stack_chk_fail' --dyn-syms
has "no checked functions (_FORTIFY_SOURCE)" ' __(mem|read|pread|recv|poll|str|snprintf)[a-z]*_chk' --dyn-syms
echo "ok"
