# Untested. Builds Palaver from this source with the libraries of nixpkgs. The sandbox has no
# network, so the vocabularies are left out: tokens are estimated.
{
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-24.11";
  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in {
      packages = each (pkgs: {
        default = pkgs.stdenv.mkDerivation {
          pname = "palaver";
          version = "0.1.0";
          src = ../..;
          nativeBuildInputs = with pkgs; [ meson ninja pkg-config ];
          buildInputs = with pkgs; [ sqlite openssl utf8proc libyaml libuv curl libedit libmicrohttpd gnutls zlib wslay postgresql ];
          mesonFlags = [ "-Dtests=false" "-Dvocabularies=disabled" "-Dmarkdown=disabled" ];
        };
      });
    };
}
