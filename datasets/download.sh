# Sourced by the scripts beside it: downloads and checks files, each published only when it is whole.
#
#   download FOLDER MIRROR MIRROR_VARIABLE   with lines "NAME KIND CHECKSUM" on standard input
#
# KIND is md5 (of the file) or content-sha256 (of what it unpacks to, so that repacked copies pass).

checksum() {  # KIND FILE
  case $1 in
    md5) md5sum < "$2" | cut -d' ' -f1 ;;
    content-sha256) { gzip -dc "$2" 2> /dev/null || true; } | sha256sum | cut -d' ' -f1 ;;
    *) echo "unknown checksum kind $1" ;;
  esac
}

download() {
  local folder=$1 mirror=${2%/} variable=$3 script name kind expected actual
  script=$(basename "$0")
  mkdir -p "$folder"
  partial=$(mktemp -d "$folder/.partial.XXXXXX")
  trap 'rm -rf "$partial"' EXIT
  while read -r name kind expected; do
    if [[ -f $folder/$name && $(checksum "$kind" "$folder/$name") == "$expected" ]]; then
      echo "$folder/$name: already there"
      continue
    fi
    if ! curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 \
      --output "$partial/$name" "$mirror/$name"; then
      echo "$script: could not download $mirror/$name; set $variable to a mirror that has it" >&2
      return 1
    fi
    actual=$(checksum "$kind" "$partial/$name")
    if [[ $actual != "$expected" ]]; then
      echo "$script: $mirror/$name is not the original file: its $kind is $actual, expected $expected." >&2
      echo "$script: nothing was kept of it; try again or set $variable to another mirror" >&2
      return 1
    fi
    sync "$partial/$name"
    mv "$partial/$name" "$folder/$name"
    echo "$folder/$name: downloaded"
  done
}
