# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/checkout"

# What script/release refuses, and what it hands to the programs that upload, which are others here.
class ReleaseTest < Minitest::Test
  include Checkout

  VERSION = File.read("#{ROOT}/Cargo.toml", encoding: "UTF-8")[/^version = "([^"]+)"/, 1]

  PLATFORMS = %w[-x86_64-linux -aarch64-linux -x86_64-linux-musl -aarch64-linux-musl -x86_64-darwin -arm64-darwin].freeze
  GEMS = [*PLATFORMS, ""].map { |platform| "lease_machines-#{VERSION.tr("-", ".")}#{platform}.gem" }.freeze

  def setup
    super
    # Whether this commit is a release or not.
    change("CHANGELOG.md") { |text| without_date(text).sub("## [Unreleased]\n", "\\0\n## [#{VERSION}] - 2026-01-02\n") }
    commit
  end

  def test_a_commit_that_is_fit
    assert_equal ["version #{VERSION}, clean, dated in CHANGELOG.md", 0], release("--check")
    assert_equal 0, release("--check", "v#{VERSION}").last
  end

  def test_a_change_that_was_not_committed
    change("README.md") { |text| "#{text}\n" }

    assert_refused(/not clean: 1 paths/, "--check")
  end

  def test_another_version
    assert_refused(/Cargo.toml has version #{VERSION}, asked for was 9.8.7/, "--check", "v9.8.7")
  end

  def test_versions_that_disagree
    change("lib/lease_machines/version.rb") { |text| text.sub(/"\d+/, '"99') }
    commit

    assert_refused(/version.rb has 99.*expected was #{VERSION}.*the versions disagree/m, "--check")
  end

  def test_a_change_log_that_says_nothing_of_it
    change("CHANGELOG.md") { |text| without_date(text) }
    commit

    assert_refused(/no section "## \[#{VERSION}\] - YYYY-MM-DD"/, "--check")
  end

  def test_a_tag_of_another_commit
    git("tag", "v#{VERSION}")
    commit("--allow-empty")

    assert_refused(/is the tag of another commit/, "--check")
  end

  def test_what_a_release_wrote_stays_as_it_is
    file = "store/tests/released/sqlite-schema-1.db"
    git("tag", "v0.0.1")
    File.write("#{@folder}/store/tests/released/sqlite-schema-2.db", "of the next one")
    commit

    assert_equal 0, release("--check").last
    git("tag", "v0.0.2")
    git("mv", file, "#{file}.old")
    File.write("#{@folder}/store/tests/released/sqlite-schema-2.db", "of somebody else")
    commit

    assert_refused(/^ *of another .* in v0.0.1, or gone: #{file}\n.* in v0.0.2, or gone: #{file} .*2.db$/, "--check")
  end

  def test_the_release_of_the_tag_has_the_notes_and_everything_with_its_sum
    stub("gh", '[ $2 != view ] || exit 1; cat; printf "%s\n" "$@"')
    put("lease.gem")
    output, = release("--page", "v#{VERSION}")

    assert_includes output, "### Added"
    refute_includes output, "## ["
    assert_includes output, "release\ncreate\nv#{VERSION}\n--verify-tag"
    assert_includes output, "pkg/SHA256SUMS\npkg/lease.gem"
    assert system("sha256sum", "--check", "--quiet", "SHA256SUMS", chdir: "#{@folder}/pkg")
  end

  def test_a_release_that_was_left_half_way_is_mended
    stub("gh", 'case $2 in view) ;; create) exit 1 ;; edit) cat; echo "$@" ;; *) echo "$@" ;; esac')
    put("lease.gem")
    output, status = release("--page", "v#{VERSION}")

    assert_equal 0, status, output
    assert_match(/^release upload v#{VERSION} --clobber pkg.SHA256SUMS pkg.lease.gem\n.*### Added/m, output)
    assert_match(/^release edit v#{VERSION} --verify-tag --title #{VERSION} --notes-file - --draft=false\z/, output)
  end

  def test_a_dry_run_shows_the_notes_and_counts_what_it_skips
    programs_that_make(release("--list").first.split)
    commit
    output, status = release("--dry-run")

    assert_equal 0, status, output
    assert_match(/^==> 2.7 what its page will say\n+### Added\n.*^==> 3/m, output)
    assert_match(/^15 artefacts in pkg.\n1 skipped: advisories, .*: no such host\nrelease: #{VERSION} is ready/, output)
  end

  def test_a_dry_run_ends_with_an_advisory
    programs_that_make(release("--list").first.split, fetched: true)
    commit
    output, status = release("--dry-run")

    assert_equal 3, status, output
    assert_match(/^==> 4.7 advisories\na hole\z/, output)
  end

  def test_gems_that_are_there_already_are_left_out
    stub("gem", 'case $2 in *musl*) echo "Repushing of gem versions is not allowed."; exit 1 ;; esac')
    put(*GEMS)
    output, status = release("--gems")

    assert_equal 0, status, output
    assert_equal(GEMS.map { |gem| "==> pkg/#{gem}: #{gem.include?("musl") ? "there already" : "uploaded"}" },
                 output.split(/\n+/))
  end

  def test_a_gem_that_is_refused
    stub("gem", "echo no rights; exit 1")
    put(*GEMS)

    assert_refused(/x86_64-linux.gem: no rights/, "--gems")
  end

  def test_no_gem_is_uploaded_where_one_is_missing
    stub("gem", "echo never")
    put(*GEMS)
    File.write("#{@folder}/pkg/#{GEMS[4]}", "")

    assert_equal ["release: missing in pkg/: #{GEMS[4]}", 1], release("--gems")
  end

  def test_artefacts_that_are_missing_at_the_end
    programs_that_make(release("--list").first.split.grep_v(/arm64.deb|aarch64-linux-musl.gem/))
    commit

    assert_refused(/^13 artefacts in .*: missing in pkg.: lease-m.*_arm64.deb lease_m.*-aarch64-linux-musl.gem$/m, "--make")
  end

  def test_crates_that_are_there_already_are_left_out
    stub("cargo", 'case "$*" in info*lease-machines@*) ;; info*) exit 101 ;; *) echo "$@" ;; esac')
    output, status = release("--crates")

    assert_equal 0, status, output
    assert_match(/lease-machines #{VERSION} is there already/, output)
    left = %w[os store id cli keeper].map { |name| " -p lease-machines-#{name}" }.join
    assert_match(/^publish --locked#{left}$/, output)
  end

  private

  def without_date(text) = text.sub(/^## \[#{VERSION}\].*\n/, "")

  def release(...) = script("release", ...)

  def assert_refused(words, *arguments)
    output, status = release(*arguments)

    assert_equal 1, status, output
    assert_match words, output
  end

  def put(*names)
    FileUtils.mkdir_p("#{@folder}/pkg")
    names.each { |name| File.write("#{@folder}/pkg/#{name}", "bytes") }
  end

  # Instead of those that script/release calls, such that make these of the artefacts, and where an advisory is in a database
  # that can be fetched or not.
  def programs_that_make(names, fetched: false)
    crates, gems, packages = [/crate$/, /gem$/, /^lease.*(gz|deb)$/].map { |kind| names.grep(kind).join(" ") }
    writes = 'for name in $names; do echo bytes >"$at/$name"; done'
    stub("cargo", <<~BASH)
      at=target/package names='#{crates}'
      case "$*" in
        package*) mkdir -p $at && #{writes} ;;
        "deny fetch db") #{fetched ? "exit" : 'printf "failed\nno such host\n"; exit 1'} ;;
        deny*check*advisories*) echo "a hole"; exit 3 ;;
      esac
    BASH
    stub("rake", "at=pkg names='#{gems}'; case $1 in --tasks) echo rake native:all ;; --quiet) #{writes} ;; esac")
    programs = %w[setup test crates verify-command].to_h { |name| [name, "exit"] }
    programs["package-command"] = "at=pkg names='#{packages}'; #{writes}"
    programs.each { |name, text| File.write("#{@folder}/script/#{name}", "#!/usr/bin/env bash\n#{text}\n") }
  end
end
