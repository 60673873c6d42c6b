#!/usr/bin/env bash
# Builds a libcurl.so.4 for the wheel from Debian's source package: HTTP and HTTPS alone. Debian's own library also
# speaks LDAP, Kerberos, SSH and RTMP, and would bring some twenty libraries along.
#
#   scripts/package/libcurl.sh FOLDER     FOLDER/libcurl.so.4; nothing is done where it exists
#
# Needs the network the first time, and exits with 77 without it. apt checks the signature of the source.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit
fi
(($# == 1)) && [[ $1 != -* ]] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[[ ! -e $folder/libcurl.so.4 ]] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "libcurl.sh: $1" >&2; exit 1; }

# Package lists of its own, so that the machine's are left alone.
mkdir -p "$work/lists/partial" "$work/source"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" \
  > "$work/sources.list"
apt_options=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
             -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
{ apt-get "${apt_options[@]}" update && cd "$work/source" && apt-get "${apt_options[@]}" source curl; } \
  > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; echo "libcurl.sh: Debian's source of curl could not be had; is the network up?" >&2; exit 77; }

# The program is linked with Debian's library, whose symbols have this version.
echo 'CURL_OPENSSL_4 { global: curl_*; local: *; };' > "$work/versions"
cmake -S "$work/source"/curl-*/ -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SHARED_LINKER_FLAGS="-Wl,--version-script=$work/versions" -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF \
  -DENABLE_MANUAL=OFF -DHTTP_ONLY=ON -DCURL_DISABLE_LDAP=ON -DCURL_DISABLE_LDAPS=ON -DCURL_USE_OPENSSL=ON \
  -DCURL_USE_GSSAPI=OFF -DCURL_USE_LIBSSH2=OFF -DUSE_LIBRTMP=OFF -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF \
  -DCURL_USE_LIBPSL=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
  -DCURL_CA_PATH=none > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "cmake fails"; }
cmake --build "$work/build" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "the build fails"; }
cp "$work/source"/curl-*/debian/copyright "$folder/copyright"
cp -L "$work/build/lib/libcurl.so.4" "$folder/.libcurl.so.4"
strip --strip-unneeded "$folder/.libcurl.so.4"
mv "$folder/.libcurl.so.4" "$folder/libcurl.so.4"
