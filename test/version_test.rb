# frozen_string_literal: true

require "minitest/autorun"
require_relative "../lib/lease_machines/version"

# One version for the crates, the gem and what is written about them. It is set in the workspace's Cargo.toml; this says
# where else it has to be changed.
class VersionTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  # Whatever the locale: this also runs where none is set.
  def self.read(file) = File.read(File.expand_path(file, ROOT), encoding: Encoding::UTF_8)

  VERSION = read("Cargo.toml")[/^\[workspace\.package\]\n(?:[^\[]*\n)?version = "([^"]+)"/, 1]

  def test_the_workspace_has_one
    assert_match(/\A\d+\.\d+\.\d+(-[a-z]+\.\d+)?\z/, VERSION)
  end

  def test_the_gem
    assert_equal VERSION.tr("-", "."), LeaseMachines::VERSION
    assert_equal VERSION.tr("-", "."), Gem::Specification.load("#{ROOT}/lease_machines.gemspec").version.to_s
  end

  def test_every_crate_takes_that_of_the_workspace
    members.each do |member|
      assert_match(/^version\.workspace = true$/, read("#{member}/Cargo.toml"), member)
    end
  end

  def test_crates_ask_for_one_another_by_it
    asked = read("Cargo.toml").scan(/^([a-z-]+) = \{ path = "[^"]+", version = "([^"]+)"/)

    refute_empty asked
    asked.each { |name, version| assert_equal VERSION, version, name }
  end

  def test_the_lock_file
    locked = read("Cargo.lock").scan(/^name = "([^"]+)"\nversion = "([^"]+)"\n(?!source)/)

    assert_equal members.size, locked.size
    locked.each { |name, version| assert_equal VERSION, version, name }
  end

  def test_the_change_log
    headings = read("CHANGELOG.md").scan(/^## \[([^\]]+)\]/).flatten

    assert_includes [VERSION, "Unreleased"], headings.first
  end

  # Where a page says how to depend on this project, it names this version or the start of it.
  def test_what_is_written
    pages = Dir["#{ROOT}/{*,core/*,store/*,keeper/*,cli/*}.md"] - ["#{ROOT}/CHANGELOG.md"]

    refute_empty pages
    pages.each do |page|
      named = read(page).scan(/lease[_-]machines[\w-]*(?:"?\s*=\s*"|", "~> |@)(\d+\.\d+(?:\.\d+)?)/).flatten
      named.each { |version| assert VERSION.start_with?(version), "#{page} names #{version}" }
    end
  end

  private

  def read(...) = self.class.read(...)

  def members
    read("Cargo.toml")[/^members = \[(.*?)\]/m, 1].scan(/"([^"]+)"/).flatten
  end
end
