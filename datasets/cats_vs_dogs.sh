#!/usr/bin/env bash
# Downloads Microsoft's cats and dogs (25,000 colour JPEGs, 787 MB) and sorts them into
# FOLDER/{train,validation}/{cats,dogs}.
#
#   datasets/cats_vs_dogs.sh [FOLDER]     FOLDER is datasets/cats_vs_dogs when left out; a finished one is kept
#
# Every fifth picture by its number is for validation. As TensorFlow's data set of the name does, files that are not
# JFIF are left out, which is where the damaged ones are.
# CATS_DOGS_MIRROR: another place that has kagglecatsanddogs_5340.zip; CATS_DOGS_SHA256: the checksum of its copy, if it
# is another one. The licence is Microsoft's:
# https://www.microsoft.com/en-us/download/details.aspx?id=54765
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
folder=${1:-$data_folder/cats_vs_dogs}
archive=kagglecatsanddogs_5340.zip
if [[ -d $folder/train && -d $folder/validation ]]; then
  echo "$folder: already there"
  exit
fi
command -v unzip > /dev/null || { echo "cats_vs_dogs.sh: needs unzip (apt-get install unzip)" >&2; exit 1; }
download "$folder" "${CATS_DOGS_MIRROR:-https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F}" \
  CATS_DOGS_MIRROR << FILES
$archive sha256 ${CATS_DOGS_SHA256:-b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9}
FILES

unpacked=$(mktemp -d "$folder/.unpacked.XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
unzip -q "$folder/$archive" -d "$unpacked"

is_jfif() {  # bash's read leaves out the zero byte among the first ten
  local start
  LC_ALL=C IFS= read -r -N 9 start < "$1" && [[ $start == *JFIF ]]
}

left_out=0
for kind in Cat:cats Dog:dogs; do
  training=() validation=()
  for file in "$unpacked/PetImages/${kind%:*}"/*.jpg; do
    number=${file##*/}
    if ! is_jfif "$file"; then
      left_out=$((left_out + 1))
    elif ((${number%.jpg} % 5 == 0)); then
      validation+=("$file")
    else
      training+=("$file")
    fi
  done
  for split in training:train validation:validation; do
    declare -n files=${split%:*}
    to=$unpacked/sorted/${split#*:}/${kind#*:}
    mkdir -p "$to"
    ((${#files[@]} == 0)) || printf '%s\0' "${files[@]}" | xargs -0 mv -t "$to"
    echo "$folder/${split#*:}/${kind#*:}: ${#files[@]} pictures"
  done
done
mv "$unpacked/sorted/validation" "$folder/validation"
mv "$unpacked/sorted/train" "$folder/train"
rm "$folder/$archive"
echo "$folder: $left_out files that are not JFIF were left out"
