# Untested. A formula for Homebrew on Linux. URL and sha256 are those of a release; SHA256SUMS has
# the checksum.
class Palaver < Formula
  desc "Conversation engine for programs that talk to language models"
  homepage "https://example.org/palaver"
  url "https://example.org/palaver/palaver-0.1.0-linux-x86_64.tar.xz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"
  depends_on :linux

  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"bin/palaver"
    man1.install_symlink libexec/"share/man/man1/palaver.1"
    bash_completion.install_symlink libexec/"share/bash-completion/completions/palaver"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_palaver"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/palaver.fish"
  end

  service do
    run [opt_bin/"palaver", "serve"]
    keep_alive true
  end

  test do
    assert_equal "echo: hello\n", shell_output("#{bin}/palaver chat --provider echo --store #{testpath}/a.db hello")
  end
end
