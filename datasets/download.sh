# Sourced by the scripts beside it: downloads and checks files, each published only when it is whole.
#
#   download FOLDER MIRROR MIRROR_VARIABLE   with lines "NAME KIND EXPECTED" on standard input: MIRROR/NAME each
#   fetch FOLDER NAME URL KIND EXPECTED MIRROR_VARIABLE   one file
#
# KIND is md5 or sha256 (of the file), content-sha256 (of what it unpacks to, so that repacked copies pass), or, where
# the publisher gives no checksum, bytes (the file's size) or begins (its first bytes, in hexadecimal).
#
# An interrupted download is continued by the next one, from FOLDER/.NAME.part.
#
# data_folder is where data sets go by default: beside the scripts in a checkout. An installed copy may lie in a folder
# that its users cannot write; its default is `datasets` in the current folder, where the configs read.
data_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -f $data_folder/../CMakeLists.txt ]] || data_folder=datasets

checksum() {  # KIND FILE EXPECTED
  case $1 in
    md5 | sha256) "${1}sum" < "$2" | cut -d' ' -f1 ;;
    content-sha256) { gzip -dc "$2" 2> /dev/null || true; } | sha256sum | cut -d' ' -f1 ;;
    bytes) stat -c %s "$2" ;;
    begins) head -c $((${#3} / 2)) "$2" | od -An -v -tx1 | tr -d ' \n' ;;
    *) echo "unknown checksum kind $1" ;;
  esac
}

# Continues $2, or starts it anew where the server cannot continue.
transfer() {  # URL FILE
  local code=0
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --continue-at - --output "$2" "$1" ||
    code=$?
  # 33: the server knows no ranges; 22 with a part: there is nothing behind its end (416).
  if [[ -s $2 ]] && ((code == 33 || code == 22)); then
    code=0
    curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --output "$2" "$1" || code=$?
  fi
  [[ -s $2 ]] || rm -f "$2"
  return $code
}

fetch() {
  local folder=$1 name=$2 url=$3 kind=$4 expected=$5 variable=$6 script part actual lock
  script=$(basename "$0")
  part=$folder/.$name.part
  mkdir -p "$folder"
  if [[ -f $folder/$name && $(checksum "$kind" "$folder/$name" "$expected") == "$expected" ]]; then
    echo "$folder/$name: already there"
    return
  fi
  exec {lock}< "$folder"
  if ! flock --nonblock "$lock"; then
    echo "$script: another download into $folder is going on" >&2
    return 1
  fi
  [[ ! -s $part ]] || echo "$folder/$name: continues after $(stat -c %s "$part") bytes"
  if ! transfer "$url" "$part"; then
    echo "$script: could not download $url; set $variable to a mirror that has it" >&2
    [[ ! -s $part ]] || echo "$script: the next start continues after the $(stat -c %s "$part") bytes in $part" >&2
    return 1
  fi
  actual=$(checksum "$kind" "$part" "$expected")
  if [[ $actual != "$expected" ]]; then
    rm -f "$part"
    echo "$script: $url is not the original file: its $kind is $actual, expected $expected." >&2
    echo "$script: nothing was kept of it; try again or set $variable to another mirror" >&2
    return 1
  fi
  sync "$part"
  mv "$part" "$folder/$name"
  exec {lock}<&-
  case $kind in
    bytes | begins)
      echo "$folder/$name: downloaded; no checksum of it is published, its SHA-256 is" \
        "$(checksum sha256 "$folder/$name" -)"
      ;;
    *) echo "$folder/$name: downloaded" ;;
  esac
}

download() {
  local folder=$1 mirror=${2%/} variable=$3 name kind expected
  while read -r name kind expected; do
    fetch "$folder" "$name" "$mirror/$name" "$kind" "$expected" "$variable" || return 1
  done
}
