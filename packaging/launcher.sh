#!/bin/sh
# Starts palaver with the libraries of its package, so that those of the system do not matter.
self=$0
while [ -L "$self" ]; do
    link=$(readlink "$self")
    case $link in
    /*) self=$link ;;
    *) self=${self%/*}/$link ;;
    esac
done
lib=$(cd "${self%/*}/../lib/palaver" && pwd -P) || exit 127
# The certificates of authorities are those of the system, which has them in one of these files.
if [ -z "${SSL_CERT_FILE-}" ] && [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then
    for file in /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [ -e "$file" ]; then
            export SSL_CERT_FILE="$file"
            break
        fi
    done
fi
exec "$lib/@LOADER@" --argv0 palaver --library-path "$lib" "$lib/palaver" "$@"
