# frozen_string_literal: true

require "minitest/autorun"
require_relative "../rakelib/native/platform"
require_relative "support/checkout"

# What script/setup asks for, and what the checks of script/crates and script/verify-command find, with other programs than
# those that take minutes.
class ScriptsTest < Minitest::Test
  include Checkout

  CARGO = ENV.fetch("PATH").split(":").map { |folder| "#{folder}/cargo" }.find { |file| File.executable?(file) }

  def test_tools_are_asked_for_by_the_steps_that_need_them
    assert_equal %w[cargo-about cargo-cyclonedx cargo-deny], missing_tools
    assert_equal %w[cargo-about cargo-cyclonedx cargo-deny cargo-hack cargo-semver-checks], missing_tools("--release")
    assert_empty missing_tools("rust", "ruby", "package")
    assert_equal %w[cargo-deny], missing_tools("fmt", "deny")
    assert_equal %w[cargo-about cargo-cyclonedx], missing_tools("native")
    assert_equal %w[cargo-about cargo-cyclonedx], missing_tools("command")
  end

  def test_the_comparison_with_the_last_release_is_skipped_before_the_first
    assert_empty missing_tools("crates")
    with_cargo("semver-checks) exit 100")
    output, status = script("crates", "semver")

    assert_equal 0, status, output
    assert_match(/^skipped: semver: there is no tag.*^0 passed, 0 failed, 1 skipped\z/m, output)
  end

  def test_after_it_the_comparison_is_carried_out
    git("tag", "v0.0.1")

    assert_equal %w[cargo-semver-checks], missing_tools("crates")
    assert_includes missing_tools, "cargo-semver-checks"
    assert_empty missing_tools("rust")
    with_cargo('semver-checks) echo "compared: $*"')
    output, status = script("crates", "semver")

    assert_equal 0, status, output
    assert_match(/^compared: semver-checks --baseline-rev v0.0.1 -p lease-machines .*^1 passed, 0 failed\z/m, output)
    with_cargo("semver-checks) exit 100")

    assert_equal 1, script("crates", "semver").last
  end

  def test_the_table_of_the_crates_is_compared_with_the_manifests
    assert_equal ["==> order\n1 passed, 0 failed", 0], script("crates", "order")
    change("RELEASE.md") { |text| text.sub(/(?<=`lease-machines-cli` \| `lease-machines`), `lease-machines-id`/, "") }
    output, status = script("crates", "order")

    assert_equal 1, status
    assert_match(/^< \| `lease-machines-cli` \| `lease-machines`, `lease-machines-id`, `lease-machines-store` \|$/, output)
  end

  def test_the_order_of_the_crates_is_compared_with_the_manifests
    change("RELEASE.md") { |text| text.sub(/^(\| `lease-machines-cli`.*\n)(.*\n)/, '\2\1') }

    assert_equal 1, script("crates", "order").last
  end

  def test_docs_rs_is_told_to_build_with_all_features
    with_cargo("+nightly) exit")

    assert_equal ["==> docs\n1 passed, 0 failed", 0], script("crates", "docs")
    change("core/Cargo.toml") { |text| text.sub(/^all-features = true\n/, "") }
    change("os/Cargo.toml") { |text| text.sub(/^all-features = true/, "all-features = false") }
    output, status = script("crates", "docs")

    assert_equal 1, status
    assert_equal %w[core os], output.scan(%r{/([a-z]+)/Cargo.toml: \[package.metadata.docs.rs\]}).flatten
  end

  # Of something that is no package at all.
  def test_packages_of_a_release_that_are_missing_or_cannot_be_read
    FileUtils.mkdir_p("#{@folder}/pkg")
    expected = script("release", "--list").first.split.grep(/gz$|deb$/).sort
    expected.first(3).each { |name| File.write("#{@folder}/pkg/#{name}", "bytes") }
    stub("lintian", "exit 2")
    stub("unshare", "exit 1")
    stub("zsh", "exit 1")
    output, status = script("verify-command")

    assert_equal 1, status, output
    found, all = output.match(/^FAILED: pkg: the packages of a release[^\n]*: found\n(.*?)^expected\n(.*?)^\w+: /m).captures

    assert_equal [expected.first(3), expected], [found.split, all.split]
    ["static", "stripped", "names no folder of the machine that built it"].each do |check|
      assert_equal 3, output.scan(/^FAILED: .*: #{check}: /).size, check
    end
    assert_equal 1, output.scan(/^FAILED: .*deb: lintian finds no error/).size
    assert_equal 2, output.scan(/^FAILED: .*gz: zsh takes the completions/).size
  end

  def test_the_readme_says_what_is_demanded_of_the_artefacts
    install = File.read("#{ROOT}/README.md", encoding: "UTF-8")[/^## Install\n.*?^## /m]
    mebibytes = File.read("#{ROOT}/script/verify-command")[/^most_mebibytes=(\d+)$/, 1]

    assert_includes install, "Compiled for Ruby #{Platform::RUBIES.join(" and ")} on x86_64 and aarch64 Linux, " \
                             "with glibc #{Platform::GLIBC} or later or with musl, at most #{Platform::GEM_LIMIT / 1e6} MB;"
    assert_includes install, "The program has at most #{mebibytes} MiB"
  end

  def test_a_release_has_a_gem_for_each_platform_that_is_compiled_for
    listed = script("release", "--list").first.scan(/^lease_machines-\d[^-]*(?:-(.*))?\.gem$/).flatten

    assert_equal [*Platform::ALL.map(&:name), nil], listed
  end

  def test_updates_are_looked_for_where_crates_are_locked
    locks = Dir.chdir(ROOT) { `git ls-files "*Cargo.lock"` }.lines.map { |file| "/#{File.dirname(file)}".delete_suffix(".") }
    updates = File.read("#{ROOT}/.github/dependabot.yml")

    assert_equal locks.sort, updates[/package-ecosystem: cargo\n +directories: \[(.*)\]/, 1].scan(/"(.*?)"/).flatten.sort
  end

  private

  # Cargo as it is, but for what these branches of a case say.
  def with_cargo(*branches) = stub("cargo", "case $1 in #{branches.join(" ;; ")} ;; *) exec #{CARGO} \"$@\" ;; esac")

  # The programs from crates.io that script/setup would install for these steps, to a user who may not, where there are none.
  def missing_tools(*steps)
    stub("cargo", "exit")
    stub("rustup", "exit 1")
    stub("id", "echo 1000")
    path = ENV.fetch("PATH").split(":").reject { |folder| Dir["#{folder}/cargo*"].any? }.join(":")
    output, = script("setup", *steps, environment: { "PATH" => path, "CI" => nil })
    output.scan(/cargo install --locked (\S+)/).flatten.sort
  end
end
