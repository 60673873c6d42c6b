#!/usr/bin/env bash
# Downloads the retinal OCT scans of Kermany and others (2018; version 2, 84 thousand grayscale JPEGs, 5.4 GB) into
# FOLDER/{train,test} (and val, if the archive has it) with the folders CNV, DME, DRUSEN and NORMAL.
#
#   datasets/oct2017.sh [FOLDER [ARCHIVE]]     FOLDER is datasets/oct2017 when left out; a finished one is kept
#
# ARCHIVE: a .tar.gz or .zip that was downloaded by hand, which is left where it is. Kaggle's copy needs an account:
# https://www.kaggle.com/datasets/paultimothymooney/kermany2018, "Download", then
#   datasets/oct2017.sh datasets/oct2017 ~/Downloads/archive.zip
# OCT_MIRROR: another place that has OCT2017.tar.gz. Its publisher gives no checksum, so only its size is checked;
# OCT_BYTES: the size of the mirror's copy, if it is another one.
# Licence: CC BY 4.0, https://data.mendeley.com/datasets/rscbjbr9sj/2
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
folder=${1:-$data_folder/oct2017}
archive=${2:-}
if [[ -d $folder/train && -d $folder/test ]]; then
  echo "$folder: already there"
  exit
fi
if [[ -n $archive ]]; then
  [[ -f $archive ]] || { echo "oct2017.sh: there is no file $archive" >&2; exit 1; }
else
  url=https://data.mendeley.com/public-files/datasets/rscbjbr9sj/files/5699a1d8-d1b6-45db-bb92-b61051445347/file_downloaded
  [[ -z ${OCT_MIRROR:-} ]] || url=${OCT_MIRROR%/}/OCT2017.tar.gz
  fetch "$folder" OCT2017.tar.gz "$url" bytes "${OCT_BYTES:-5793183169}" OCT_MIRROR || {
    echo "oct2017.sh: or download it by hand, from Mendeley or Kaggle, and run" \
      "datasets/oct2017.sh $folder ARCHIVE; datasets/oct2017.sh says more at its top" >&2
    exit 1
  }
fi

mkdir -p "$folder"
unpacked=$(mktemp -d "$folder/.unpacked.XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
case ${archive:-OCT2017.tar.gz} in
  *.zip)
    command -v unzip > /dev/null || { echo "oct2017.sh: needs unzip (apt-get install unzip)" >&2; exit 1; }
    unzip -q "$archive" -d "$unpacked"
    ;;
  *) tar -xzf "${archive:-$folder/OCT2017.tar.gz}" -C "$unpacked" ;;
esac
# macOS's ._ files beside the scans are none.
find "$unpacked" -name '._*' -delete
class=$(find "$unpacked" -type d -path '*/train/NORMAL' -print -quit)
if [[ -z $class ]]; then
  echo "oct2017.sh: ${archive:-OCT2017.tar.gz} has no folder train/NORMAL: it is another archive" >&2
  exit 1
fi
found=$(dirname "$(dirname "$class")")
for split in val test train; do
  [[ -d $found/$split ]] || continue
  rm -rf "${folder:?}/$split"
  mv "$found/$split" "$folder/$split"
  echo "$folder/$split: $(find "$folder/$split" -iname '*.jp*g' | wc -l) scans"
done
[[ -n $archive ]] || rm "$folder/OCT2017.tar.gz"
